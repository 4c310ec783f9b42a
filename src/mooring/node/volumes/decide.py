"""What to do next about one volume on this node. Pure.

The order of events is the handshake's (docs/protocol.md, "Mount"): publish `volumesInUse`, see the volume
reported in `volumesAttached`, look live, mount the device, set the pods up; and back: tear down, unmount the
device, only then let the volume leave `volumesInUse`. Uncertain counts as mounted for every step that lets
go, and as not mounted for every step that hands out.

What is done for one pod is nested in what is done with the volume: operations for several pods go at once,
and none is under way when something is done with the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from mooring.kube import decision
from mooring.kube.reason import Reason


@dataclass(frozen=True)
class PodVolumes:
    """What a pod needs to know of its volumes. `mounted`: volume name to path. `waiting`: volume name to
    why. `read_only`: the names of those that its containers may only read, whatever their mounts say."""

    wanted: bool
    mounted: Mapping[str, str]
    waiting: Mapping[str, Reason]
    read_only: frozenset[str]
    stale: bool
    """One of them must not be used any more."""
    held: bool
    """Something of them is, or may be, still mounted."""
    evicted: Reason | None
    """Why the pod must end: it has put more into a volume than it may."""
    releasing: bool
    """They were let go, and that has not ended."""


class Presence(Enum):
    """What is known of a mount."""

    ABSENT = "absent"
    UNCERTAIN = "uncertain"
    """It was tried, or found after a restart: it may be there."""
    PRESENT = "present"


class Action(Enum):
    """The next step."""

    PUBLISH = "Publish"
    """Put it into volumesInUse."""
    WAIT_FOR_ATTACH = "WaitForAttach"
    MOUNT_DEVICE = "MountDevice"
    SET_UP = "SetUp"
    GROW = "Grow"
    """Its file system, if the claim asks for it."""
    TEAR_DOWN = "TearDown"
    UNMOUNT_DEVICE = "UnmountDevice"
    END_PODS = "EndPods"
    """The pods on a stale mount must end before it can be unmounted."""
    UNPUBLISH = "Unpublish"
    """Let it leave volumesInUse, and forget it."""
    SETTLED = "Settled"


@dataclass(frozen=True)
class VolumeState:
    """All that is known of one volume. Pods are named by their UIDs."""

    attachable: bool
    has_device: bool
    """It is mounted once for the node; attachable volumes always are."""
    wanted_by: frozenset[str]
    """Pods that use it, or would: until their processes are gone."""
    starting: frozenset[str]
    """Those of them that are not being terminated: only they get new mounts."""
    pods: Mapping[str, Presence]
    outdated: frozenset[str]
    """Pods whose mount must be set up once more, because its content has changed."""
    under_way: frozenset[str]
    """Pods for which an operation is being done."""
    resting: Mapping[str, Action]
    """Pods whose last operation failed, which it was, and which is not tried again yet."""
    one_at_a_time: bool
    """Its driver takes one call for a volume after the other."""
    device: Presence
    published: bool
    """In volumesInUse, acknowledged."""
    reported: bool
    """In volumesAttached, as far as the cache knows."""
    to_grow: bool
    """Its file system may have to grow."""
    stale: bool
    """Its VolumeAttachment is gone or is another one: the device may be another node's now."""


class Decision(decision.Decision[Action], frozen=True, gc=False):
    """One action, the pods that it is for, and why."""

    pods: frozenset[str] = frozenset()


def decide(volume: VolumeState) -> Decision:
    """What to do next; once it is done, decide again on what then is."""
    return (
        _let_go(volume)
        or _hand_out(volume)
        or _grow(volume)
        or _decision(Action.SETTLED, frozenset(), "Settled", "nothing to do")
    )


def _let_go(volume: VolumeState) -> Decision | None:
    held = frozenset(pod for pod, presence in volume.pods.items() if presence is not Presence.ABSENT)
    unwanted = held - volume.wanted_by
    if now := _may_begin(volume, unwanted, Action.TEAR_DOWN):
        return _decision(Action.TEAR_DOWN, now, "NotWanted", "the pod does not use it any more")
    if volume.stale and held - unwanted:
        text = "its VolumeAttachment is gone or was replaced"
        return _decision(Action.END_PODS, held - unwanted, "StaleMount", text)
    if held or volume.under_way:  # what is of the device waits for all operations for pods
        return None
    if volume.device is Presence.ABSENT:
        return _forget(volume)
    if volume.stale:
        return _decision(
            Action.UNMOUNT_DEVICE, frozenset(), "StaleMount", "its VolumeAttachment is gone or was replaced"
        )
    if not volume.wanted_by:
        return _decision(Action.UNMOUNT_DEVICE, frozenset(), "NotWanted", "no pod of this node uses it")
    if (
        volume.attachable and not volume.reported
    ):  # storage that refuses to detach what is mounted waits for us
        return _decision(
            Action.UNMOUNT_DEVICE, frozenset(), "NotAttached", "a detach has begun, and no pod has it yet"
        )
    return None


def _forget(volume: VolumeState) -> Decision | None:
    """Of it no pod has anything, and no device is left."""
    if volume.wanted_by:
        return None
    return _decision(Action.UNPUBLISH, frozenset(), "NotWanted", "nothing of it is left on this node")


def _hand_out(volume: VolumeState) -> Decision | None:
    missing = frozenset(pod for pod in volume.starting if volume.pods.get(pod) is not Presence.PRESENT)
    due = missing | (volume.outdated & volume.starting)
    if volume.stale:
        return None
    if volume.attachable and volume.wanted_by and not volume.published:
        return _decision(
            Action.PUBLISH, due, "NotPublished", "the node has not said yet that it uses the volume"
        )
    due = _may_begin(volume, due, Action.SET_UP)
    if not due:
        return None
    if volume.attachable and not volume.reported:
        return _decision(
            Action.WAIT_FOR_ATTACH, due, "WaitingForAttach", "the volume is not attached to this node yet"
        )
    if volume.has_device and volume.device is not Presence.PRESENT:
        if volume.under_way:
            return None
        return _decision(Action.MOUNT_DEVICE, due, "Mounting", "the device is being mounted")
    return _decision(Action.SET_UP, due, "Mounting", "the volume is being set up for the pod")


def _grow(volume: VolumeState) -> Decision | None:
    if not volume.to_grow or volume.stale or volume.under_way or volume.device is not Presence.PRESENT:
        return None
    return _decision(
        Action.GROW, volume.starting, "Resizing", "the claim may ask for more than the file system has"
    )


def _may_begin(volume: VolumeState, pods: frozenset[str], action: Action) -> frozenset[str]:
    """Those of the pods for which the operation may begin now. An operation waits for none of another pod,
    unless the driver takes one call at a time; and for the back-off of its own kind alone, as upstream's do
    (nested pending operations)."""
    if volume.one_at_a_time and volume.under_way:
        return frozenset()
    now = sorted(each for each in pods - volume.under_way if volume.resting.get(each) is not action)
    return frozenset(now[:1] if volume.one_at_a_time else now)


def _decision(action: Action, pods: frozenset[str], code: str, message: str) -> Decision:
    return Decision(action, Reason(code, message), pods)
