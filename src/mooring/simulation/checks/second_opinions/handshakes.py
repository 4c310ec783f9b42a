"""The walk of a detach, and each other step of the handshake: docs/protocol.md, "Detach", R1 to R5, C7, C13
and C16. By each worker is noted which steps were done, in their order, and with which answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mooring.controllers.attachdetach.attached_lists import AttachedLists
from mooring.controllers.attachdetach.handshake import Handshake, Released
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.release import Release
from mooring.controllers.attachdetach.state import Attachment, NodeState, Terms
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.releasing import NO_TERMS, verdict_on
from mooring.simulation.checks.second_opinions.server_requests import Mark, begins, requests_since
from mooring.volumes.attachment_lock import lock_of
from mooring.volumes.names import (
    ATTACH_EPOCH,
    DETACHING,
    NODE_ABSENT_SINCE,
    NODE_UID,
    VOLUMES_ATTACHED_WRITE,
)

ENDS: Mapping[Release, tuple[str, ...]] = {
    Release.ALLOW: ("_delete",),
    Release.FORCE: ("release", "_delete"),
    Release.LOOK: ("note",),
    Release.KEEP: ("restore",),
}
"""How a detach goes on after the verdict: a force detach is on the PersistentVolume first (C16)."""


class Step(NamedTuple):
    """One that was done."""

    name: str
    answer: Any
    about: Any


_STEPS: Memories[list[Step]] = Memories(list)


def _steps() -> list[Step]:
    return _STEPS.of(asyncio.current_task())


def begin() -> None:
    """From now on this worker's steps count."""
    _steps().clear()


def steps_done() -> list[str]:
    """Since then, the first one first."""
    return [each.name for each in _steps()]


def answer_of(name: str) -> Any:
    """Of the last step of that name; None if it was not done."""
    return next((each.answer for each in reversed(_steps()) if each.name == name), None)


def noting(name: str) -> Callable[..., Iterable[str]]:
    """An opinion that only notes the step."""

    def note(answer: Any, asked: object, about: Any, *rest: Any, **how: Any) -> Iterable[str]:
        _steps().append(Step(name, answer, about))
        return ()

    return note


# --- a detach


def walk_begins(asked: Handshake, record: VolumeAttachment, *terms: Any, **how: Any) -> int:
    return len(_steps())


def walked(
    answer: Released,
    before: int,
    asked: Handshake,
    record: VolumeAttachment,
    terms: Terms = NO_TERMS,
    *,
    exclusive: bool = True,
) -> Iterator[str]:
    """Mark, un-report, judge its answer, and delete or take the mark back: in this order."""
    steps = [each for each in _steps()[before:] if each.name in ("unreport", "_delete", *_AFTER)]
    _steps().append(Step("detach", answer, record))
    marked, name = answer.record, record.metadata.name
    if DETACHING not in marked.metadata.annotations or marked.metadata.uid != record.metadata.uid:
        yield f"{name} is given up, and was not marked first"
    if [each.name for each in steps] != ["unreport", *ENDS[answer.verdict.action]]:
        yield f"{name}: {answer.verdict.action}, by {[each.name for each in steps]}"
        return
    node: Node | None = steps[0].answer
    state = NodeState.of(node, steps[0].about) if node is not None else None
    expected = verdict_on(state, Attachment.of(marked), terms)
    if (answer.verdict.action, answer.verdict.reason.code) != expected[:2]:
        yield f"{name}: {answer.verdict}, and what its un-report has shown says {expected}"
    if any(each.about is not marked for each in steps[1:]):
        yield f"{name}: what is written after its mark is not computed from that"


_AFTER = ("release", "note", "restore")


def unreported(
    answer: Node | None, asked: AttachedLists, volume: str, node_name: str, token: str, record: Any
) -> Iterator[str]:
    """The write changes the Node in any case (R4), and the volume is not listed in its answer."""
    _steps().append(Step("unreport", answer, volume))
    if answer is None:
        return
    if volume in [each.name for each in answer.status.volumes_attached]:
        yield f"{volume} is un-reported on {node_name}, and listed"
    if not answer.metadata.annotations.get(VOLUMES_ATTACHED_WRITE):
        yield f"{volume} is un-reported on {node_name}, and that has changed nothing"


# --- VolumeAttachments


def annotated(
    answer: VolumeAttachment,
    asked: Handshake,
    record: VolumeAttachment,
    annotations: Mapping[str, str | None],
) -> Iterator[str]:
    """It says so now, and the cache knows."""
    _steps().append(Step("annotate", dict(annotations), record))
    said = answer.metadata.annotations
    if wrong := [name for name, text in annotations.items() if said.get(name) != text]:
        yield f"{record.metadata.name}: {wrong} were to be written"
    cached = vars(asked)["_records"].get(record.metadata.name)
    known = int(cached.metadata.resource_version) if cached is not None else None
    if known is not None and known < int(answer.metadata.resource_version):
        yield f"{record.metadata.name} was written, and its cache does not know"


def restored(answer: None, asked: Handshake, record: VolumeAttachment) -> Iterator[str]:
    """With the mark goes what was noted since."""
    yield from _wrote(record, {DETACHING: None, NODE_ABSENT_SINCE: None})
    _steps().append(Step("restore", answer, record))


def restamped(answer: None, asked: Handshake, record: VolumeAttachment, node: Node) -> Iterator[str]:
    """It is of the Node that there is now."""
    yield from _wrote(record, {NODE_UID: node.metadata.uid})
    _steps().append(Step("restamp", answer, record))


def lock_restamped(
    answer: None, mark: Mark, asked: Locks, record: VolumeAttachment, node: Node
) -> Iterator[str]:
    """The lock, read live, is of the Node that there is now, or of another node."""
    source = record.spec.source.persistent_volume_name
    shown = requests_since(mark, kind=PersistentVolume, key=source)
    if not shown or not shown[-1].is_answered:
        yield f"{record.metadata.name} is restamped, and its lock was not read"
    elif isinstance(shown[-1].answer, PersistentVolume):
        lock = lock_of(shown[-1].answer)
        if lock.node == node.metadata.name and lock.node_uid != node.metadata.uid:
            yield f"the lock of {source} is of {lock.node} with uid {lock.node_uid}, and not {node.metadata.uid}"


def lock_released(
    answer: None, mark: Mark, asked: Locks, record: VolumeAttachment, node: Node | None, *, exclusive: bool
) -> Iterator[str]:
    """What is taken by force is on the PersistentVolume first (C16), if there is one: the node is closed, and
    the epoch goes on where one node alone may have the volume."""
    source = record.spec.source.persistent_volume_name
    shown = requests_since(mark, kind=PersistentVolume, key=source)
    if not shown or not shown[0].is_answered:
        yield f"{record.metadata.name} is taken by force, and its lock was not read"
    elif isinstance(shown[0].answer, PersistentVolume):
        before, after = shown[0].answer, shown[-1].answer
        closed = isinstance(after, PersistentVolume) and record.spec.node_name in lock_of(after).closed
        if len(shown) < 2 or not closed:
            yield f"{source} is taken from {record.spec.node_name} by force, which its lock does not say"
        elif exclusive and lock_of(after).epoch <= lock_of(before).epoch:
            yield f"{source} is taken by force, and its epoch is still {lock_of(after).epoch}"


def granted(answer: None, asked: Handshake, record: VolumeAttachment, node: Node, pod: str) -> Iterator[str]:
    """It is of the epoch that was granted, for the Node that there is now."""
    yield from _wrote(record, {ATTACH_EPOCH: str(answer_of("epoch")), NODE_UID: node.metadata.uid})
    _steps().append(Step("grant", answer, record))


def noted(
    answer: None, asked: Handshake, record: VolumeAttachment, notes: Iterable[tuple[str, str | None]]
) -> Iterator[str]:
    yield from _wrote(record, dict(notes))
    _steps().append(Step("note", answer, record))


def _wrote(record: VolumeAttachment, expected: Mapping[str, str | None]) -> Iterator[str]:
    wrote: Mapping[str, str | None] = answer_of("annotate") or {}
    if any(name not in wrote or wrote[name] != text for name, text in expected.items()):
        yield f"{record.metadata.name}: {dict(expected)} was to be written, and {wrote} was"


QUESTIONS = (
    Question(AttachedLists, "unreport", unreported),
    Question(Locks, "release", noting("release")),
    Question(Locks, "release", lock_released, before=begins),
    Question(Locks, "grant", noting("epoch")),
    Question(Locks, "restamp", lock_restamped, before=begins),
    Question(Handshake, "attach", noting("attach"), refusals=(AlreadyExists,)),
    Question(Handshake, "report", noting("report")),
    Question(Handshake, "_annotate", annotated),
    Question(Handshake, "_delete", noting("_delete")),
    Question(Handshake, "restore", restored),
    Question(Handshake, "restamp", restamped),
    Question(Handshake, "grant", granted),
    Question(Handshake, "note", noted),
    Question(Handshake, "detach", walked, before=walk_begins),
)
