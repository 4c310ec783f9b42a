"""What the API server's store answers to its callers, beside what it holds (D5): versions, its window, and
what a write is computed from.

Upstream's documentation, "API Concepts": resource versions, 410 Gone, and 504 for those that do not exist
yet.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.apiserver.errors import Expired, TooLargeVersion
from mooring.apiserver.store.history import Cursor, Item, Key
from mooring.apiserver.store.object_store import Store
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question


@dataclass
class Proposed:
    """The last write of each object: its version, 0 for one that was removed, and when it is durable."""

    last: dict[tuple[str, Key], tuple[int, Future[Item]]] = field(
        default_factory=dict[tuple[str, Key], tuple[int, "Future[Item]"]]
    )
    newest: int = 0


PROPOSED = Memories(Proposed)


def of_a_write(answer: Future[Item], store: Store, resource: str, key: Key, obj: Any) -> Iterator[str]:
    """Each write has a version of its own, above all before it."""
    version, known = int(obj["metadata"]["resourceVersion"]), PROPOSED.of(store)
    if version <= max(known.newest, store.version):
        yield f"{resource} {key[1]} gets version {version} after {max(known.newest, store.version)}"
    known.newest = version
    known.last[resource, key] = version, answer


def of_a_removal(answer: Future[Item], store: Store, resource: str, key: Key, last: Any) -> Iterator[str]:
    yield from of_a_write(answer, store, resource, key, last)
    PROPOSED.of(store).last[resource, key] = 0, answer


def of_a_head(answer: Item | None, store: Store, resource: str, key: Key) -> Iterator[str]:
    """A write is computed from the one before it, whether that is durable yet or not."""
    version, written = PROPOSED.of(store).last.get((resource, key), (0, None))
    failed = (
        written is not None and written.done() and (written.cancelled() or written.exception() is not None)
    )
    if written is not None and not failed and (answer.version if answer else 0) != version:
        yield f"{resource} {key[1]} was written as version {version}, and the next write is not computed from it"


def of_a_version(answer: object, store: Store, resource: str, version: int | None = None) -> Iterator[str]:
    """What is older than the window is gone, and says so; what does not exist yet is refused; all else is
    answered."""
    expected: Any = object
    if version is not None and version > store.version:
        expected = TooLargeVersion
    elif version is not None and version < store.floor:
        expected = Expired
    if (
        isinstance(answer, (Expired, TooLargeVersion))
        if expected is object
        else not isinstance(answer, expected)
    ):
        yield f"{resource} of version {version} is answered so ({store.floor} to {store.version}): {answer!r}"


def floor(store: Store) -> int:
    return store.floor


def of_eviction(answer: None, before: int, store: Store) -> Iterator[str]:
    """As many changes as the window has can be read. Where one was forgotten there are as many, unless that
    was for their bytes."""
    held, fields = len(vars(store)["_order"]), vars(store)
    too_few = (
        held < store.window and store.floor != before and fields["_bytes"] < fields["_window_bytes"] // 2
    )
    if too_few or held > store.window:
        yield f"{held} changes are kept, and the window has {store.window}"


def of_skipping(answer: None, cursor: Cursor) -> Iterator[str]:
    """What is skipped is not taken."""
    if not cursor.at_end:
        yield "what was skipped is still to be taken"


def of_a_list(answer: Sequence[Item], store: Store, resource: str) -> Iterator[str]:
    """Of each object there is one state: what is being written, and else what is durable."""
    expected = {key: item.version for key, item in store.collection(resource).items.items()}
    for (written, key), (version, done) in PROPOSED.of(store).last.items():
        if written == resource and not done.done():
            expected[key] = version
    there = sorted((key, version) for key, version in expected.items() if version)
    if sorted((item.key, item.version) for item in answer) != there:
        yield f"the newest of {resource} are told as {len(answer)} objects, and are {len(there)}, or others"


QUESTIONS = (
    Question(Store, "write", of_a_write),
    Question(Store, "remove", of_a_removal),
    Question(Store, "head", of_a_head),
    Question(Store, "heads", of_a_list),
    Question(Store, "list", of_a_version, refusals=(Expired, TooLargeVersion)),
    Question(Store, "watch", of_a_version, refusals=(Expired, TooLargeVersion)),
    Question(Store, "_evict", of_eviction, before=floor),
    Question(Cursor, "skip", of_skipping),
)
