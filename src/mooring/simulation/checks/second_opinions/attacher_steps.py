"""What the attacher does with a VolumeAttachment: docs/protocol.md, "Attach" and "Detach"."""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Container, Iterator, Mapping
from math import floor
from typing import Any

from mooring.controllers.attacher import controller
from mooring.controllers.attacher.controller import AttacherController, AttacherOptions
from mooring.controllers.attacher.decide import PLUGINS, Action
from mooring.controllers.attacher.definitions import UNDEFINED
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.writes import Writes
from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.simulation.checks.second_opinions import near_attacher as near
from mooring.simulation.checks.second_opinions.attach_states import lock_said
from mooring.simulation.checks.second_opinions.attacher_requests import known_since, times_on
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.errors import LockNotHeld, NotAsked, VolumeError
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER,
    DETACHING,
)
from mooring.volumes.plugin_manager import PluginManager

DEFAULTS = 16, 60.0
"""Requests to storages at once (docs/attach-detach.md), and seconds between two questions what is attached:
upstream's `--attach-detach-reconcile-sync-period`."""
# --- the next step


def step(
    answer: Decision[Action],
    record: VolumeAttachment,
    *,
    stored: bool = False,
    ours: Mapping[str, str] = PLUGINS,
) -> Iterator[str]:
    """An attach is asked for when our finalizer and the time of this very request are stored; a detach when
    it is being deleted and our finalizer is there."""
    finalizer = ours.get(record.spec.attacher, "")
    noted = finalizer != "" and finalizer in record.metadata.finalizers
    ends, attached = record.metadata.deletion_timestamp is not None, record.status.attached
    failed = record.status.attach_error is not None
    requested = noted and stored and ATTACH_REQUESTED_AT in record.metadata.annotations
    when = {
        (Action.IGNORE, "OtherAttacher"): finalizer == "",
        (Action.IGNORE, "NeverRequested"): finalizer != "" and ends and not noted,
        (Action.DETACH, "Deleted"): ends and noted,
        (Action.FORGET_ERROR, "Attached"): finalizer != "" and not ends and attached and failed,
        (Action.SETTLED, "Attached"): finalizer != "" and not ends and attached and not failed,
        (Action.ATTACH, "Wanted"): requested and not ends and not attached,
        (Action.STORE_INTENT, "NotRequested"): finalizer != "" and not (ends or attached or requested),
    }
    if not when.get((answer.action, answer.reason.code), False):
        yield f"{record.name}: {answer.action.value}, and not {[key for key, due in when.items() if due]}"


def what_matters(answer: tuple[object, ...], record: VolumeAttachment) -> Iterator[str]:
    """A change of what the next step, or the look at the lock before it, depends on brings the key up."""
    attached = record.status.attached
    late_error = attached and record.status.attach_error is not None
    states = (record.metadata.deletion_timestamp is not None, attached, late_error)
    epoch = record.metadata.annotations.get(ATTACH_EPOCH)
    if answer.count(True) != sum(states) or answer.count(False) != 3 - sum(states):
        yield f"{record.name}: ends, attached, late error: {states}; it says {answer}"
    if record.metadata.uid not in answer or record.metadata.finalizers not in answer or epoch not in answer:
        yield f"{record.name}: its uid, finalizers or epoch is missing in {answer}"


def lock_checked(
    answer: LockNotHeld | None, record: VolumeAttachment, persistent_volume: PersistentVolume | None
) -> Iterator[str]:
    """The storage is asked to attach only under the lock's present epoch (C14)."""
    if persistent_volume is None:
        held = True
    else:
        epoch = record.metadata.annotations.get(ATTACH_EPOCH, "0")
        held = epoch == str((lock_said(persistent_volume) or {}).get("epoch", 0))
    if held != (answer is None):
        yield f"{record.name} is {'' if held else 'not '}of the lock's epoch: {answer}"
    if answer is not None and ("without the lock" in str(answer)) == (
        ATTACH_EPOCH in record.metadata.annotations
    ):
        yield f"{record.name} has an epoch, or has none, and its error says otherwise: {answer}"


def reclaim_checked(
    answer: NotAsked | None, record: VolumeAttachment, persistent_volume: PersistentVolume | None
) -> Iterator[str]:
    """What is marked as to be deleted or emptied is attached nowhere ("Reclaim")."""
    phase = persistent_volume.status.phase if persistent_volume is not None else ""
    policy = persistent_volume.spec.persistent_volume_reclaim_policy if persistent_volume is not None else ""
    marked = phase in ("Released", "Failed") and policy in ("Delete", "Recycle")
    if marked != (answer is not None):
        yield f"{record.name}, of a volume that is {phase} under {policy}: {answer}"


def left_behind(answer: list[Any], asked: AttacherController, pv: PersistentVolume) -> Iterator[str]:
    """A PersistentVolume that is being deleted and has a finalizer of ours is looked at."""
    ours = set(vars(asked)["_ours"].values())
    waits = pv.metadata.deletion_timestamp is not None and any(
        each in ours for each in pv.metadata.finalizers
    )
    if waits != (len(answer) == 1):
        yield f"PersistentVolume {pv.name} {'waits' if waits else 'does not wait'} for us: {answer}"


def known_before(asked: AttacherController, record: VolumeAttachment) -> dict[str, float]:
    """Since when its requests are known."""
    return known_since(vars(asked)["_ages"], record)


def intended(
    answer: VolumeAttachment, known: Mapping[str, float], asked: AttacherController, record: VolumeAttachment
) -> Iterator[str]:
    """Our finalizer, beside all others, and the time of this request, after those that may be in flight: a
    request is as old as it is known, whatever clock has stamped it."""
    ours = vars(asked)["_ours"][record.spec.attacher]
    others = [each for each in record.metadata.finalizers if each != ours]
    if list(answer.metadata.finalizers) != [*others, ours]:
        yield f"{record.name}: finalizers {answer.metadata.finalizers}, before {record.metadata.finalizers}"
    before, sent = times_on(record, ATTACH_REQUESTED_AT), times_on(answer, ATTACH_REQUESTED_AT)
    if not sent or len(sent) > len(before) + 1:
        yield f"{record.name}: requests at {sent}, before {before}"
    if before and len(sent) == 1 and record.spec.attacher != ATTACHER:
        now = get_running_loop().time()
        age_s, valid_s = now - known.get(before[-1], now), _validity_s(asked, record)
        if age_s < valid_s:
            yield f"{record.name}: a request of {age_s} s ago is forgotten, which counts for {valid_s} s"


def _validity_s(asked: AttacherController, record: VolumeAttachment) -> float:
    """Of a request to a CSI driver; 0 if it is not there to ask."""
    try:
        plugin = vars(asked)["_plugins"].find_attachable_plugin_by_name(record.spec.attacher)
    except VolumeError:
        return 0.0
    return plugin.capabilities(UNDEFINED).request_validity_s if plugin is not None else 0.0


def made(
    answer: None, asked: AttacherController, client: Any, plugins: PluginManager, **given: Any
) -> Iterator[str]:
    """Of several storages each may have three quarters of the workers at most: one that does not answer
    leaves some to the others."""
    options: AttacherOptions = given.get("options", AttacherOptions())
    slots: Slots = vars(asked)["_slots"]
    otherwise: int | None = vars(slots)["_otherwise"]
    several = len(plugins.attachers()) > 1
    if otherwise != (max(1, floor(0.75 * options.workers)) if several else None):
        yield f"of {options.workers} workers each of {len(plugins.attachers())} storages may have {otherwise}"
    default = AttacherOptions()
    if (default.workers, default.verify_period_s) != DEFAULTS:
        yield f"where an operator says nothing, {default} holds, and not {DEFAULTS}"
    if asked.workers != options.workers:
        yield f"{asked.workers} workers, and not {options.workers}"


def slot_taken(answer: bool, before: int, asked: Slots, driver: str, key: str) -> Iterator[str]:
    """Only while the driver's requests in flight are fewer than its limit; who gets none is woken in its
    turn."""
    limits: Mapping[str, int | None] = vars(asked)["_limits"]
    limit, waiting = limits.get(driver, vars(asked)["_otherwise"]), vars(asked)["_waiting"]
    now = vars(asked)["_taken"].get(driver, 0)
    if answer != (limit is None or before < limit) or now != before + answer:
        yield f"{driver} has {before} of {limit} slots: {key} gets one: {answer}, {now}"
    if not answer and list(waiting[driver]).count(key) != 1:
        yield f"{key} waits for a slot of {driver}, and is not woken: {waiting[driver]}"


def slots_taken(asked: Slots, driver: str, key: str = "") -> int:
    return vars(asked)["_taken"].get(driver, 0)


def slot_freed(answer: None, before: int, asked: Slots, driver: str) -> Iterator[str]:
    """One more may begin."""
    if (now := slots_taken(asked, driver)) != before - 1:
        yield f"{driver} had {before} slots, and has {now}"


# --- what is recorded


def verified(answer: bool, record: VolumeAttachment, ours: Container[str]) -> Iterator[str]:
    """Asked about is what is attached by us, and of which no detach has begun."""
    ends = record.metadata.deletion_timestamp is not None or DETACHING in record.metadata.annotations
    if answer != (record.status.attached and record.spec.attacher in ours and not ends):
        yield f"the storage is {'' if answer else 'not '}asked whether {record.name} is attached"


def corrected(
    answer: dict[str, Any], record: VolumeAttachment, said: bool | Mapping[str, str]
) -> Iterator[str]:
    """What is recorded becomes what the storage says: not attached, or attached as it tells."""
    attached, told = answer.get("attached", True), record.status.attachment_metadata
    patched = dict(told)
    for name, value in answer.get("attachmentMetadata", {}).items():
        if value is None:
            patched.pop(name, None)
        else:
            patched[name] = value
    expected = told if isinstance(said, bool) else dict(said)
    if attached != (said is not False) or (attached and patched != expected):
        yield f"{record.name}: the storage says {said}, of {told}; corrected by {answer}"
    if answer and said is not False and expected == told:
        yield f"{record.name} is right, and is corrected by {answer}"


def cached(answer: bool, asked: Writes, record: VolumeAttachment) -> Iterator[str]:
    """The very VolumeAttachment, and not a later one of its name."""
    held = vars(asked)["_cache"].get(record.metadata.name)
    if answer != (held is not None and held.metadata.uid == record.metadata.uid):
        yield f"the cache has {held}, and {record.name} is {'' if answer else 'not '}shown"


QUESTIONS = (
    Question(controller, "decide", step, near=near.STEPS),
    Question(controller, "_what_matters", what_matters, near=near.MATTERS),
    Question(controller, "_check_lock", lock_checked, refusals=(LockNotHeld,), near=near.LOCKS),
    Question(controller, "_check_reclaim", reclaim_checked, refusals=(NotAsked,), near=near.RECLAIMED),
    Question(controller, "is_verified", verified, near=near.VERIFIED),
    Question(controller, "correction", corrected, near=near.CORRECTED),
    Question(AttacherController, "__init__", made),
    Question(AttacherController, "_left_behind", left_behind),
    Question(AttacherController, "_store_intent", intended, before=known_before),
    Question(Slots, "take", slot_taken, before=slots_taken),
    Question(Slots, "free", slot_freed, before=slots_taken),
    Question(Writes, "shows", cached),
)
