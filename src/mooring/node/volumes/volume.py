"""One volume of this node: its record, what is known beyond it, and the pods that want it. Values only, no
I/O."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.kube.objects import Pod
from mooring.kube.reason import Reason
from mooring.kube.workqueue import FIRST_DELAY_S, LAST_DELAY_S, MOST_DOUBLINGS
from mooring.node.volumes.decide import Action, Presence, VolumeState
from mooring.node.volumes.records import DeviceRecord, PodRecord, VolumeRecord
from mooring.volumes.attachment_lock import closed_at
from mooring.volumes.spec import VolumeSpec

WAITING = Reason("Mounting", "the volume is being mounted")


@dataclass
class Want:
    """A pod's wish: the names that the volume has in the pod (`read_only`: those under which containers may
    only read it), and since when (the loop's time) it waits."""

    pod: Pod
    names: tuple[str, ...]
    spec: VolumeSpec
    since: float
    read_only: frozenset[str] = frozenset()
    starting: bool = True
    problem: Reason = WAITING


@dataclass
class PodOperation:
    """The operation on a volume for one pod that is under way, or that has failed last. `again_at`: before
    that (the loop's time) it is not tried again."""

    action: Action
    under_way: bool = True
    failures: int = 0
    again_at: float = 0.0
    roused: bool = False
    """Something has changed since it began: if it fails, that may be over."""

    def failed(self, now: float) -> float:
        """It has; in how many seconds it is tried again: upstream's back-off, which doubles."""
        delay = min(FIRST_DELAY_S * 2 ** min(self.failures, MOST_DOUBLINGS), LAST_DELAY_S)
        self.failures += 1
        self.rests(now + delay)
        return delay

    def rests(self, until: float) -> None:
        """It has ended, and is not tried again before, unless something has changed meanwhile."""
        self.under_way, self.again_at = False, 0.0 if self.roused else until


@dataclass
class WantedVolume:
    """A volume that a pod wants, or that is still there. `record` is always what is on disk."""

    record: VolumeRecord
    device: Presence = Presence.ABSENT
    pods: dict[str, Presence] = field(default_factory=dict[str, Presence])
    """What pods have, or may have: none of them is ABSENT."""
    wants: dict[str, Want] = field(default_factory=dict[str, Want])
    adopted: set[str] = field(default_factory=set[str])
    """Pods that had the volume before this agent started, and that the API has not shown yet: it stays
    theirs."""
    outdated: set[str] = field(default_factory=set[str])
    set_up_at: dict[str, float] = field(default_factory=dict[str, float])
    """When (the loop's time) this agent has last set it up for a pod."""
    stale: bool = False
    mounting: bool = False
    """Its device is being mounted."""
    operations: dict[str, PodOperation] = field(default_factory=dict[str, PodOperation])
    """By pods: what is being done for them, or has failed."""
    to_grow: bool = False
    """Its claim may ask for a larger file system."""
    told: str = ""
    """What was said last of it as an orphan, whose plugin is missing."""
    unverified: bool = False
    """Its VolumeAttachment must be looked at before the next step."""

    @classmethod
    def found(cls, record: VolumeRecord, mount_points: set[str]) -> WantedVolume:
        """After a restart: what is recorded and a mount point is there; what is only recorded, or was being
        set up or unmounted, is uncertain. What was being taken from a pod is not the pod's any more."""

        def presence(path: str, of: DeviceRecord | PodRecord) -> Presence:
            sure = path in mount_points and not (of.leaving or of.unfinished)
            return Presence.PRESENT if sure else Presence.UNCERTAIN

        device = record.device

        return cls(
            record,
            device=presence(device.mount_path, device) if device else _only_attached(record),
            pods={uid: presence(pod.path, pod) for uid, pod in record.pods.items()},
            adopted={uid for uid, pod in record.pods.items() if not pod.leaving},
            unverified=device is not None and record.attachable and not record.attached_here,
        )

    @property
    def in_use(self) -> bool:
        """Whether it belongs into the Node's volumesInUse."""
        return self.record.attachable and (self.busy or bool(self.wants) or not self.record.empty)

    def awaited_epoch(self, node_name: str) -> int | None:
        """If it was taken from this node by force: the epoch of its lock that a waiting pod has seen,
        provided that nothing of it is mounted here. None: there is nothing to say."""
        if self.busy or not self.record.empty:
            return None
        seen = (closed_at(want.spec.persistent_volume, node_name) for want in self.wants.values())
        return max((epoch for epoch in seen if epoch is not None), default=None)

    @property
    def busy(self) -> bool:
        """A mount is being made: the volume stays in use even if no pod wants it any more."""
        return self.mounting or any(each.under_way for each in self.operations.values())

    def begin(self, pod_uid: str, action: Action) -> PodOperation:
        """An operation for the pod is under way. What failed counts on if it is of the same kind."""
        last = self.operations.get(pod_uid)
        failures = last.failures if last is not None and last.action is action else 0
        self.operations[pod_uid] = begun = PodOperation(action, failures=failures)
        return begun

    def rouse(self, pod_uid: str) -> None:
        """Something has changed: what failed for the pod may be tried at once."""
        last = self.operations.get(pod_uid)
        if last is not None:
            last.again_at, last.roused = 0.0, last.under_way

    def rest(self, now: float) -> float | None:
        """In how many seconds the next operation that failed may be tried again; None: there is none."""
        left = [each.again_at - now for each in self.operations.values() if not each.under_way]
        return min((each for each in left if each > 0), default=None)

    def holds(self, pod_uid: str) -> bool:
        """Whether the pod's mount is, or may be, there."""
        return self.pods.get(pod_uid, Presence.ABSENT) is not Presence.ABSENT

    def taken_over(self, attachment_uid: str) -> bool:
        """The device was mounted, or may have been, under another VolumeAttachment than this one."""
        return self.record.device is not None and self.record.device.attachment_uid != attachment_uid

    def age(self, period: Callable[[Want], float | None], now: float) -> float | None:
        """Marks as outdated what a pod has had for longer than `period` says, in seconds; what an earlier
        agent has set up is of an unknown age. In how many seconds the next one will be; None: never."""
        rests: list[float] = []
        for pod_uid, want in self.wants.items():
            if self.pods.get(pod_uid) is Presence.PRESENT and (lasts := period(want)) is not None:
                rest = self.set_up_at.get(pod_uid, -math.inf) + lasts - now
                if rest > 0:
                    rests.append(rest)
                else:
                    self.outdated.add(pod_uid)
        return min(rests, default=None)

    def drop(self, pod_uid: str) -> bool:
        """The pod wants it no more; False if it did not."""
        dropped = pod_uid in self.wants or pod_uid in self.adopted
        self.wants.pop(pod_uid, None)
        self.adopted.discard(pod_uid)
        self.forget_operation(pod_uid)
        return dropped

    def forget_operation(self, pod_uid: str) -> None:
        """What failed for a pod that neither wants nor holds the volume concerns no other."""
        last = self.operations.get(pod_uid)
        if last is not None and not (last.under_way or pod_uid in self.wants or self.holds(pod_uid)):
            del self.operations[pod_uid]

    def state(self, *, published: bool, reported: bool, now: float, one_at_a_time: bool) -> VolumeState:
        """What `decide` judges. `now` is the loop's time."""
        under_way = frozenset(uid for uid, each in self.operations.items() if each.under_way)
        resting = {
            uid: each.action
            for uid, each in self.operations.items()
            if uid not in under_way and each.again_at > now
        }
        return VolumeState(
            attachable=self.record.attachable,
            has_device=self.record.has_device,
            wanted_by=frozenset(self.wants) | self.adopted,
            starting=frozenset(uid for uid, want in self.wants.items() if want.starting),
            pods=dict(self.pods),
            outdated=frozenset(self.outdated),
            under_way=under_way,
            resting=resting,
            one_at_a_time=one_at_a_time,
            device=self.device,
            published=published,
            reported=reported,
            stale=self.stale and not self.record.empty,
            to_grow=self.to_grow,
        )

    def read_only_names(self, pod_uid: str) -> frozenset[str]:
        """The names under which the pod's containers may only read it."""
        want = self.wants.get(pod_uid)
        return want.read_only if want is not None else frozenset()

    def set_pod_view(self, pod_uid: str, mounted: dict[str, str], waiting: dict[str, Reason]) -> None:
        """Adds what the pod has of this volume, or what it waits for."""
        want = self.wants.get(pod_uid)
        if want is None:
            return
        if self.pods.get(pod_uid) is Presence.PRESENT:
            mounted |= dict.fromkeys(want.names, self.record.pods[pod_uid].path)
        else:
            waiting |= dict.fromkeys(want.names, want.problem)


def _only_attached(record: VolumeRecord) -> Presence:
    """A device that this agent has attached, and not mounted: there is something to let go of."""
    return Presence.UNCERTAIN if record.attached_here else Presence.ABSENT
