"""What the attach/detach controller has done when an act of it ends: docs/protocol.md, "Attach" and "Detach";
docs/attach-detach.md.

What was decided was done by the handshake, or the volume is looked at again; who waits is told when that is
news; and what is remembered of a try, a deletion or a lock is what has happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.controllers.attachdetach.handshake import Released
from mooring.controllers.attachdetach.release import Release
from mooring.controllers.attachdetach.state import Action, VolumeDecision, VolumeState
from mooring.controllers.attachdetach.sweep import SweepKey
from mooring.kube.objects import Pod, VolumeAttachment
from mooring.kube.rests import Rests
from mooring.simulation.checks.second_opinions.handshakes import answer_of, begin, steps_done
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.queues import is_brought_up
from mooring.volumes.attachment_lock import Lock

NEWS_S = 10.0
"""That a volume is on its way from another node is told when its pods have waited for so long."""
WARNS_S = 300.0
"""So often is a warning told that lasts."""
SETTLES_S = 1.0
"""Between so long and twice as long an epoch that the node has got stands before it is raised."""
SOON_S = 1.0
"""What came of an act is looked at within this time."""
LOOKS_S = 60.0
"""And whatever is due by the wall clock once a minute."""
NEARLY_S = 1e-3
WRITTEN: dict[Action, str] = {
    Action.ATTACH: "attach",
    Action.GRANT: "grant",
    Action.RESTORE: "restore",
    Action.RESTAMP: "restamp",
    Action.NOTE: "note",
    Action.REPORT: "report",
    Action.DETACH: "detach",
}
"""By decision, the step of the handshake that carries it out."""


def looked_at(asked: AttachDetachController, volume: str, seconds: float) -> bool:
    """Whether the volume is looked at again in that time: something wants it now, or a timer does."""
    return is_brought_up(asked.queue, volume, seconds + NEARLY_S)


def in_vain(asked: AttachDetachController, volume: str) -> Mapping[tuple[str, Action], tuple[int, float]]:
    """What was tried in vain: node and action → how often, and until when it rests."""
    rests: Rests[tuple[str, Action]] | None = vars(asked)["_in_vain"].get(volume)
    return vars(rests)["_done"] if rests is not None else {}


# --- one volume


class Work:
    """On one volume, by one worker: what was decided, by node."""

    def __init__(self) -> None:
        self.decided: dict[str, VolumeDecision] = {}


_WORK: Memories[Work] = Memories(Work)


def work() -> Work:
    return _WORK.of(asyncio.current_task())


def work_begins(asked: AttachDetachController, key: object) -> None:
    work().decided.clear()


def decided(
    answer: None, asked: AttachDetachController, decision: VolumeDecision, state: VolumeState
) -> Iterable[str]:
    work().decided[decision.node] = decision
    return ()


def worked(answer: None, before: None, asked: AttachDetachController, key: object) -> Iterator[str]:
    """A timer that runs has the volume looked at again; nothing is remembered of what was not decided now."""
    if isinstance(key, SweepKey):
        return
    volume, actions, parts = str(key), work().decided, vars(asked)
    for decision in actions.values():
        if decision.after and not looked_at(asked, volume, min(decision.after, LOOKS_S) + SOON_S):
            yield f"{volume} is to be looked at again in {decision.after} s"
    if volume in parts["_settling"] and all(each.action is not Action.GRANT for each in actions.values()):
        yield f"{volume} needs no grant, and its epoch is remembered"
    for what in ("_last_events", "_waiting_since"):
        if others := parts[what].get(volume, {}).keys() - actions.keys():
            yield f"{volume}: of {sorted(others)} it is remembered what was told"
    for node, action in in_vain(asked, volume):
        if node not in actions or actions[node].action is not action:
            yield f"{volume} on {node}: {action.value} was in vain, and is not decided any more"


# --- what was decided


def carry_out_begins(
    asked: AttachDetachController, volume: str, decision: VolumeDecision, state: VolumeState
) -> None:
    begin()


def carried_out(
    answer: None,
    before: None,
    asked: AttachDetachController,
    volume: str,
    decision: VolumeDecision,
    state: VolumeState,
) -> Iterator[str]:
    """It was done, and nothing else; or it is looked at again when it can be done."""
    done, step = steps_done(), WRITTEN.get(decision.action, "")
    where = f"{volume} on {decision.node}"
    if step not in done and step and not looked_at(asked, volume, LOOKS_S):
        yield f"{where}: {step} is not done, and nothing has it tried again"
    others = {*WRITTEN.values()}.intersection(done) - {step}
    if others and decision.action is not Action.DETACH:
        yield f"{where}: {decision.action.value} was decided, and done were {done}"
    if decision.action is Action.REPORT and answer_of("report") is False:
        yield from _in_vain(asked, volume, decision)


def _in_vain(asked: AttachDetachController, volume: str, decision: VolumeDecision) -> Iterator[str]:
    """It is noted, and tried again, ever more seldom."""
    if (decision.node, decision.action) not in in_vain(asked, volume):
        yield f"{volume} on {decision.node}: {decision.action.value} was in vain, and that is not noted"
    if not looked_at(asked, volume, LOOKS_S):
        yield f"{volume} on {decision.node}: {decision.action.value} was in vain, and is not tried again"


def too_early(
    answer: bool, asked: AttachDetachController, volume: str, decision: VolumeDecision
) -> Iterator[str]:
    """What was in vain rests, and is looked at when that is over."""
    until = in_vain(asked, volume).get((decision.node, decision.action), (0, now()))[1]
    if answer != (until > now()):
        yield f"{volume} on {decision.node} rests until {until}, it is {now()}, and too early: {answer}"
    if answer and not looked_at(asked, volume, until - now()):
        yield f"{volume} on {decision.node} rests, and is not looked at when that is over"


def detached(
    answer: None, asked: AttachDetachController, volume: str, decision: VolumeDecision, state: VolumeState
) -> Iterator[str]:
    """A deletion that was requested counts at once. What is kept is tried again, ever more seldom."""
    released = answer_of("detach")
    if not isinstance(released, Released):
        return
    if released.verdict.action is Release.KEEP:
        yield from _in_vain(asked, volume, decision)
        return
    if not looked_at(asked, volume, SOON_S):
        yield f"{volume} on {decision.node}: what has come of its detach is not looked at"
    parts, record = vars(asked), released.record
    held: VolumeAttachment | None = parts["_index"].records.get(record.metadata.name)
    shown = held is not None and held.metadata.uid == record.metadata.uid
    requested = parts["_deleted"].get(record.metadata.name) == record.metadata.uid
    if requested != (released.verdict.action is not Release.LOOK and shown):
        yield f"{volume} on {decision.node}: {released.verdict.action}, and its deletion counts: {requested}"


# --- locks that settle


class Seen(NamedTuple):
    """The epoch that a node has got, and since when it is seen."""

    epoch: int
    at: float


_SEEN: Memories[dict[str, Seen]] = Memories(dict)


def settling_before(
    asked: AttachDetachController, volume: str, decision: VolumeDecision, lock: Lock | None
) -> Seen | None:
    """Since when the epoch is seen that is to be raised; None: the lock is another node's."""
    seen, parts = _SEEN.of(asked), vars(asked)
    if lock is None or lock.node != decision.node:
        return None
    if volume not in parts["_settling"] or volume not in seen or seen[volume].epoch != lock.epoch:
        seen[volume] = Seen(lock.epoch, now())
    return seen[volume]


def granted(
    answer: None,
    seen: Seen | None,
    asked: AttachDetachController,
    volume: str,
    decision: VolumeDecision,
    lock: Lock | None,
) -> Iterator[str]:
    """An epoch that the node has got has its time; another controller may still write it."""
    done = "grant" in steps_done()
    if seen is None:
        if not done:
            yield f"{volume}: its lock is not granted to {decision.node}"
        return
    stands = now() - seen.at
    if done and stands < SETTLES_S - NEARLY_S:
        yield f"{volume}: its lock is granted anew after {stands} s"
    if not done and (stands > 2 * SETTLES_S + SOON_S or not looked_at(asked, volume, 2 * SETTLES_S)):
        yield f"{volume}: its lock stands for {stands} s, and is not granted anew"


# --- what is told

Told = tuple[tuple[str, ...], float]


def waiting_before(asked: AttachDetachController, volume: str, node: str, pods: Sequence[Pod]) -> Told | None:
    return vars(asked)["_waiting_since"].get(volume, {}).get(node)


def waited(
    answer: bool,
    before: Told | None,
    asked: AttachDetachController,
    volume: str,
    node: str,
    pods: Sequence[Pod],
) -> Iterator[str]:
    """That their volume is on its way is news for the same pods ten seconds after they began to wait."""
    who = tuple(pod.metadata.uid for pod in pods)
    since = before[1] if before is not None and before[0] == who else now()
    if waiting_before(asked, volume, node, pods) != (who, since):
        yield f"{volume}: pods {who} wait on {node} since {since}"
    if answer != (now() - since >= NEWS_S):
        yield f"{volume}: pods wait on {node} since {since}, it is {now()}, and that is news: {answer}"
    if not answer and not looked_at(asked, volume, since + NEWS_S - now()):
        yield f"{volume}: pods wait on {node} since {since}, and it is not looked at in time"


def told_before(asked: AttachDetachController, volume: str, node: str, found: Sequence[Any]) -> Told | None:
    return vars(asked)["_last_events"].get(volume, {}).get(node)


def told(
    answer: None,
    before: Told | None,
    asked: AttachDetachController,
    volume: str,
    node: str,
    found: Sequence[tuple[Any, Any]],
) -> Iterator[str]:
    """Once for each change, and again each five minutes while it is a warning."""
    after = told_before(asked, volume, node, found)
    if not found:
        if after is not None:
            yield f"{volume} on {node}: nothing is to be told, and {after} is remembered"
        return
    content = tuple(word for about, text in found for word in (about.metadata.uid, *text))
    lasts = found[0][1].type == "Warning"
    again = before is None or before[0] != content or (lasts and now() - before[1] >= WARNS_S)
    when = now() if again or before is None else before[1]
    if after != (content, when):
        yield f"{volume} on {node}: {content} was told at {when}, and {after} is remembered"
    if lasts and not looked_at(asked, volume, when + WARNS_S - now()):
        yield f"{volume} on {node}: a warning that lasts is not told again"


QUESTIONS = (
    Question(AttachDetachController, "reconcile", worked, before=work_begins),
    Question(AttachDetachController, "_send_events", decided),
    Question(AttachDetachController, "_carry_out", carried_out, before=carry_out_begins),
    Question(AttachDetachController, "_is_too_early", too_early),
    Question(AttachDetachController, "_detach", detached),
    Question(AttachDetachController, "_grant", granted, before=settling_before),
    Question(AttachDetachController, "_have_waited", waited, before=waiting_before),
    Question(AttachDetachController, "_send", told, before=told_before),
)
