"""Near to the volumes of a node agent, and to the VolumeAttachments that it looks at before a mount."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from mooring.node.volumes.decide import Action, Presence, VolumeState
from mooring.node.volumes.records import DeviceRecord, PodRecord
from mooring.node.volumes.volume import PodOperation, WantedVolume
from mooring.simulation.checks.second_opinions.near import (
    ANOTHER,
    BOTH,
    ENDS,
    Fact,
    Near,
    among,
    changed,
    entry,
)
from mooring.simulation.checks.second_opinions.near import one_of_them as one
from mooring.volumes.attachment_lock import Closed, Lock, annotation
from mooring.volumes.names import DETACHING, NODE_MACHINE

# --- what is known of one volume


def possible(volume: VolumeState) -> bool:
    """A device is mounted below what pods have of it, and before anything is done for them; all that is
    attached has one. Only what is attached can lose its VolumeAttachment, and that matters only while
    something of it is left. An operation that is under way does not rest."""
    held = [each for each in volume.pods.values() if each is not Presence.ABSENT]
    is_there = volume.device is not Presence.ABSENT
    if volume.has_device and not is_there and (held or volume.under_way):
        return False
    if not volume.has_device and (is_there or volume.attachable):
        return False
    if volume.stale and not (volume.attachable and (held or is_there)):
        return False
    return volume.under_way.isdisjoint(volume.resting)


def _of_a_pod(chance: Random, volume: VolumeState) -> VolumeState:
    """Of one of the pods, or of another one, something is otherwise."""
    uids = sorted(volume.wanted_by | volume.pods.keys())
    return chance.choice(POD_FACTS)(chance, volume, chance.choice((*uids, ANOTHER)))


def _wish(chance: Random, volume: VolumeState, uid: str) -> VolumeState:
    """It starts, or ends, or wants the volume no more."""
    wanted, starting = chance.choice(((False, False), (True, False), (True, True)))
    return replace(
        volume,
        wanted_by=among(volume.wanted_by, uid, wanted),
        starting=among(volume.starting, uid, starting),
    )


def _mount(chance: Random, volume: VolumeState, uid: str) -> VolumeState:
    return replace(volume, pods={**volume.pods, uid: chance.choice([*Presence])})


def _content(chance: Random, volume: VolumeState, uid: str) -> VolumeState:
    return replace(volume, outdated=among(volume.outdated, uid, uid not in volume.outdated))


def _operation(chance: Random, volume: VolumeState, uid: str) -> VolumeState:
    """It is under way, has failed, or there is none."""
    failed = chance.choice((None, Action.SET_UP, Action.TEAR_DOWN))
    others = {each: action for each, action in volume.resting.items() if each != uid}
    return replace(
        volume,
        under_way=among(volume.under_way, uid, failed is None and chance.random() < 0.5),
        resting={**others, uid: failed} if failed is not None else others,
    )


def _stuck(chance: Random, volume: VolumeState, uid: str) -> VolumeState:
    """It has it and does not want it, and could not be rid of it."""
    return replace(
        volume,
        wanted_by=among(volume.wanted_by, uid, False),
        starting=among(volume.starting, uid, False),
        pods={**volume.pods, uid: Presence.UNCERTAIN},
        under_way=among(volume.under_way, uid, False),
        resting={**volume.resting, uid: Action.TEAR_DOWN},
    )


POD_FACTS: tuple[Callable[[Random, VolumeState, str], VolumeState], ...] = (
    *(_wish, _mount, _content, _operation, _stuck),
)
STEPS = Near(
    (
        *(("volume", _of_a_pod),) * 6,
        ("volume.attachable", BOTH),
        ("volume.has_device", BOTH),
        ("volume.device", [*Presence]),
        ("volume.published", BOTH),
        ("volume.reported", BOTH),
        ("volume.to_grow", BOTH),
        ("volume.stale", BOTH),
        ("volume.one_at_a_time", BOTH),
    ),
    times=0.25,
    possible=possible,
    most=5,
)
# --- the same, as the agent keeps it

_MOUNTED = (None, DeviceRecord("/mnt", ANOTHER, ANOTHER), DeviceRecord("/mnt", leaving=True))
_LEFT: tuple[Fact, ...] = (
    ("self.record.device", _MOUNTED),
    ("self.record.attached_here", BOTH),
    ("self.record.pods", ({}, {ANOTHER: PodRecord("data", "/pods")})),
)


def _tried(chance: Random, operations: dict[str, PodOperation]) -> dict[str, PodOperation]:
    """One for another pod is under way, or has failed a moment, or long, ago."""
    action, again_at = chance.choice((Action.SET_UP, Action.TEAR_DOWN)), chance.choice((0.0, 1e3, 1e6))
    return {**operations, ANOTHER: PodOperation(action, chance.random() < 0.5, 1, again_at)}


_OPERATIONS: tuple[Fact, ...] = (
    ("self.operations", _tried),
    ("self.operations", one(("under_way", BOTH), ("again_at", (0.0, 1e3, 1e6)))),
)


def _may_be_stale(known: WantedVolume, **asked: object) -> bool:
    """Only what is attached can lose its VolumeAttachment."""
    return known.record.attachable or not known.stale


KNOWN = Near(
    (
        *_LEFT,
        *_OPERATIONS,
        ("self.stale", BOTH),
        ("self.to_grow", BOTH),
        ("self.outdated", (set(), {ANOTHER})),
        ("self.adopted", (set(), {ANOTHER})),
        ("self.wants", one(("starting", BOTH))),
        ("published", BOTH),
        ("reported", BOTH),
        ("one_at_a_time", BOTH),
        ("now", (0.0, 1e3, 1e6)),
    ),
    times=0.05,
    possible=_may_be_stale,
)


def _taken(chance: Random, asked: dict[str, Any]) -> dict[str, Any]:
    """A pod waits for it, and has seen a lock that is closed for this node, or for another one."""
    closed = {chance.choice((asked["node_name"], ANOTHER)): Closed(1, ANOTHER)}
    said = annotation(Lock(epoch=chance.randint(1, 9), closed=closed))
    place = "spec.persistent_volume.metadata.annotations"
    return changed(chance, asked, "self.wants", one((place, (said,))))


AWAITED = Near((*_LEFT, *_OPERATIONS, *(("", _taken),) * 3, ("self.mounting", BOTH)), times=0.05)
RESTS = Near((*_OPERATIONS, ("now", (0.0, 1e3, 1e6))), times=0.05)


# --- the live look

_UUIDS = (
    "",
    "4c4c4544-0044-4710-8035-c4c04f4c3332",
    "44454c4c-4400-1047-8035-c4c04f4c3332",  # the same, as other kernels show it
    "4c4c4544-0044-4710-8035-c4c04f4c3333",
    "none",
)
_PROVIDED = ("", "cloud://one", "cloud://other")


def _recorded(chance: Random, there: Any) -> dict[str, str]:
    """The machine that the VolumeAttachment was made for."""
    return {**there, NODE_MACHINE: f"{chance.choice(_UUIDS)} {chance.choice(_PROVIDED)}"}


LOOKS = Near(
    (
        ("attachment.spec.node_name", (ANOTHER,)),
        ("attachment.status.attached", BOTH),
        ("attachment.metadata.deletion_timestamp", ENDS),
        ("attachment.metadata.annotations", entry(DETACHING, "true")),
        *(("attachment.metadata.annotations", _recorded),) * 3,
        ("node.status.node_info.system_uuid", _UUIDS),
        ("node.spec.provider_id", _PROVIDED),
    ),
    times=1.0,
)
