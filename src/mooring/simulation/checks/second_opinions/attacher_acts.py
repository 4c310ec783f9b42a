"""What the attacher has done when an act of it ends: docs/protocol.md, "Attach", "Detach" and C15.

These are postconditions: of what was so when the act began, and of what its answer says, something is written
now, or waits. What is written is in its cache at once, unless the API server has said that the
VolumeAttachment is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from mooring.controllers.attacher import controller, detaching
from mooring.controllers.attacher.controller import VERIFY, AttacherController, VerifyKey
from mooring.controllers.attacher.decide import Action
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.writes import Writes
from mooring.kube.errors import KubeError
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.simulation.checks.second_opinions import server_requests
from mooring.simulation.checks.second_opinions.api_words import said_to
from mooring.simulation.checks.second_opinions.attacher_requests import times_on
from mooring.simulation.checks.second_opinions.attacher_steps import lock_checked, reclaim_checked
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.queues import is_brought_up
from mooring.volumes.errors import NotAsked, StorageRefused
from mooring.volumes.names import ATTACH_REQUESTED_AT

NEARLY_S = 1e-3
Ended = VolumeAttachment | Exception | None


def shown(writes: Writes, record: VolumeAttachment) -> VolumeAttachment | None:
    """The VolumeAttachment as it is known now; None if it is gone, or another one is in its place."""
    cached: VolumeAttachment | None = vars(writes)["_cache"].get(record.metadata.name)
    if cached is None or cached.metadata.uid != record.metadata.uid:
        return None
    return None if said_to(writes.client).is_gone(record) else cached


# --- one key


class Requests:
    """Of one worker's work on a key: what was stored of its request last, and whether it has begun to ask the
    storage."""

    sent = False
    stored: VolumeAttachment | None = None


_REQUESTS: Memories[Requests] = Memories(Requests)


def is_due(record: VolumeAttachment, ours: Mapping[str, str]) -> bool:
    """Whether anything is to be done: an attach, a detach, or an error that is to be taken off."""
    finalizer = ours.get(record.spec.attacher)
    if finalizer is None:
        return False
    if record.metadata.deletion_timestamp is not None:
        return finalizer in record.metadata.finalizers
    return not record.status.attached or record.status.attach_error is not None


def begins(asked: AttacherController, key: object) -> None:
    """From now on it counts what is said of it."""
    said_to(asked.client).live.pop(str(key), None)
    _REQUESTS.of(asyncio.current_task()).stored = None


def worked(answer: Exception | None, before: None, asked: AttacherController, key: object) -> Iterator[str]:
    """Work that has ended as if all were well has left nothing to do, or something will bring the key up
    again: a change, a time, or a slot that it waits for. It keeps no slot."""
    slots: Slots = vars(asked)["_slots"]
    queue, taken, waiting = vars(asked.queue), vars(slots)["_taken"], vars(slots)["_waiting"]
    others = len(queue["_working"].keys() - {key})
    if sum(taken.values()) > others:
        yield f"{key}: {dict(taken)} slots are taken, by {others} others"
    yield from _free_slots(slots)
    if answer is not None or is_brought_up(asked.queue, key):
        return
    if isinstance(key, VerifyKey):
        yield "nothing has it verified again what is attached"
    elif isinstance(key, str) and not any(key in keys for keys in waiting.values()):
        yield from _left(asked, key)


def _free_slots(slots: Slots) -> Iterator[str]:
    """Where a slot is free, no key waits without another one that was woken for it."""
    woken, otherwise = set(vars(slots)["_turns"].values()), vars(slots)["_otherwise"]
    for driver, keys in vars(slots)["_waiting"].items():
        limit = vars(slots)["_limits"].get(driver, otherwise)
        if keys and vars(slots)["_taken"].get(driver, 0) < limit and driver not in woken:
            yield f"{list(keys)} wait for a slot of {driver} that is free"


def started(answer: None, asked: AttacherController) -> Iterator[str]:
    """What is attached is verified from now on, in each period."""
    parts = vars(asked)
    period_s = parts["_options"].verify_period_s
    due = vars(asked.queue)["_timers"].get(VERIFY, (None,))[0]
    if (due is not None) != (period_s > 0) or (due is not None and abs(due - now() - period_s) > NEARLY_S):
        yield f"what is attached is to be verified in {period_s} s; it is {now()}, and that is due at {due}"


def _left(asked: AttacherController, key: str) -> Iterator[str]:
    parts = vars(asked)
    record = parts["_records"].get(key)
    if record is None or not is_due(record, parts["_ours"]):
        return
    if record.metadata.uid not in vars(parts["_detaching"])["_let_go"]:
        yield f"{key} is left as it is, and nothing brings it up again"


# --- attach


def step_begins(*asked: object) -> server_requests.Mark:
    """From now on it counts what is asked of the storage, and what this worker reads live."""
    _REQUESTS.of(asyncio.current_task()).sent = False
    return server_requests.begins()


def intends(answer: VolumeAttachment, asked: AttacherController, record: VolumeAttachment) -> Iterable[str]:
    _REQUESTS.of(asyncio.current_task()).stored = answer
    return ()


def is_asked() -> bool:
    """Whether this worker has begun to ask the storage since its step began."""
    return _REQUESTS.of(asyncio.current_task()).sent


def asks(answer: object, plugin: str, what: str) -> Iterable[str]:
    _REQUESTS.of(asyncio.current_task()).sent = True
    return ()


def attach_ended(
    answer: Ended, begun: server_requests.Mark, asked: AttacherController, record: VolumeAttachment
) -> Iterator[str]:
    """The storage is asked only when this very request was stored (C15), and about a PersistentVolume that
    was read live since, is locked for this attachment or for none (C14), and is not to be reclaimed
    ("Reclaim")."""
    yield from attached(answer, asked, record)
    name, request = record.spec.source.persistent_volume_name, _REQUESTS.of(asyncio.current_task())
    if request.sent and request.stored is not record:
        yield f"{record.name}: its attach is asked for, and this request is not stored"
    if not request.sent or not name:
        return
    *_, volume = None, *server_requests.found_live(begun, PersistentVolume, name)
    if volume is None:
        yield f"{record.name}: its attach is asked for, and PersistentVolume {name} is not read live"
    else:
        yield from lock_checked(None, record, volume)
        yield from reclaim_checked(None, record, volume)


def attached(answer: Ended, asked: AttacherController, record: VolumeAttachment) -> Iterator[str]:
    """A request that was answered is not outstanding; one that may have taken effect is."""
    known = shown(vars(asked)["_writes"], record)
    if known is None or isinstance(answer, KubeError):
        return
    sent = times_on(record, ATTACH_REQUESTED_AT)[-1] in times_on(known, ATTACH_REQUESTED_AT)
    if isinstance(answer, VolumeAttachment):
        if not answer.status.attached or answer.status.attach_error is not None or not sent:
            yield f"{record.name} is attached, and {answer.status} is stored, its request: {sent}"
    elif answer is None or isinstance(answer, StorageRefused | NotAsked):
        if sent:
            yield f"{record.name}: its attach was answered ({answer!r}), and counts as outstanding"
        if answer is None and known.metadata.deletion_timestamp is None:
            yield f"{record.name} is attached, and neither is that stored nor is it being deleted"
    elif not sent:
        yield f"{record.name}: its attach may still take effect ({answer!r}), and is forgotten"


def carried_out(
    answer: Ended, asked: AttacherController, action: Action, record: VolumeAttachment
) -> Iterator[str]:
    """Why the storage could not do it is stored."""
    known = shown(vars(asked)["_writes"], record)
    if known is None or not isinstance(answer, Exception) or isinstance(answer, KubeError):
        return
    status = known.status
    error = status.detach_error if action is Action.DETACH else status.attach_error
    if error is None or str(answer) not in error.message:
        yield f"{record.name}: {action.value} has failed with {answer!r}, and {error} is stored"


QUESTIONS = (
    Question(AttacherController, "reconcile", worked, before=begins, refusals=(Exception,)),
    Question(AttacherController, "started", started),
    Question(AttacherController, "_store_intent", intends),
    Question(controller, "operation", asks),
    Question(detaching, "operation", asks),
    Question(AttacherController, "_attach", attach_ended, before=step_begins, refusals=(Exception,)),
    Question(AttacherController, "_carry_out", carried_out, refusals=(Exception,)),
)
