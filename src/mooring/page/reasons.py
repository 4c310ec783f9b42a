"""Causes of `mooring why` as rows: the same reasons, messages, next steps, and the commands to copy. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.page.rows import CLAIM, Row
from mooring.page.text import commands, message, name
from mooring.page.world import Ref, World
from mooring.why.cause import Cause
from mooring.why.reason_pages import more

MOST_CAUSES = 12
"""Of one explanation, so many causes are shown."""


def stuck_row(ref: Ref, cause: Cause, world: World, seen: int) -> Row:
    """The row of something that is stuck. `seen`: since when the page knows it, in milliseconds since 1970.
    `chain` is the tree of causes in the order of `mooring why`, each with its depth."""
    chain = [_link(each, depth) for each, depth in _walk(cause)][:MOST_CAUSES]
    row: Row = {"seen": seen, "chain": chain}
    table, key = subject(ref, world)
    if table:
        row["of"] = [table, key]
    return row


def subject(ref: Ref, world: World) -> tuple[str, str]:
    """The row that an object is shown by: its table and id; empty if it has none."""
    kind, key = ref
    if kind == "pvc":
        claim = world.claims.get(key)
        bound = claim.spec.volume_name if claim is not None else ""
        return "volumes", name(bound if bound in world.volumes else f"{CLAIM}{key}")
    table = {"node": "nodes", "pv": "volumes", "pod": "pods"}.get(kind, "")
    return table, name(key) if table else ""


def _walk(cause: Cause, depth: int = 0) -> Iterator[tuple[Cause, int]]:
    yield cause, depth
    for each in cause.causes:
        yield from _walk(each, depth + 1)


def _link(cause: Cause, depth: int) -> Row:
    row: Row = {
        "about": name(cause.about),
        "code": name(cause.reason.code),
        "message": message(cause.reason.message),
    }
    if depth:
        row["depth"] = depth
    if cause.since:
        row["since"] = name(cause.since)
    if cause.next_step:
        row["next"] = message(cause.next_step)
        if copied := commands(cause.next_step):
            row["commands"] = copied
    if found := more([cause.reason.code]):
        row["more"] = found
    return row
