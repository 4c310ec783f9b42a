"""Which volumes there are on this node, and which pods want or hold them. Values only, no I/O."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator

from mooring.kube.reason import Reason
from mooring.node.volumes.decide import PodVolumes, Presence
from mooring.node.volumes.records import VolumeRecord
from mooring.node.volumes.volume import Want, WantedVolume


class NodeVolumes:
    """`volumes`: by unique name; each stays until nothing of it is left and no pod wants it."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self.volumes: dict[str, WantedVolume] = {}
        self._by_pod: defaultdict[str, set[str]] = defaultdict(set)
        self._wanting: set[str] = set()  # also pods without a volume
        self._empty = asyncio.Event()

    # --- what others ask

    def in_use(self) -> tuple[str, ...]:
        """The unique names for the Node's `volumesInUse`."""
        return tuple(sorted(name for name, volume in self.volumes.items() if volume.in_use))

    def awaited(self) -> dict[str, int]:
        """Of those the ones that were taken from this node by force and are not mounted any more, for the
        Node."""
        found = {name: volume.awaited_epoch(self._node_name) for name, volume in self.volumes.items()}
        return {name: epoch for name, epoch in found.items() if epoch is not None}

    async def drained(self) -> None:
        """Returns when nothing of any volume is left on this node."""
        while self.volumes:
            self._empty.clear()
            await self._empty.wait()

    def pods(self) -> list[str]:
        """The pods that want, or hold, any volume."""
        return list(self._by_pod)

    def of(self, pod_uid: str) -> Iterator[WantedVolume]:
        """The volumes that a pod wants or holds, by name."""
        for name in sorted(self._by_pod.get(pod_uid, ())):
            yield self.volumes[name]

    def set_up(self) -> Iterator[tuple[WantedVolume, Want]]:
        """What pods have."""
        for volume in self.volumes.values():
            yield from (
                (volume, want)
                for uid, want in volume.wants.items()
                if volume.pods.get(uid) is Presence.PRESENT
            )

    def state(self, pod_uid: str, evicted: Reason | None) -> PodVolumes:
        """What the pod has, and what it waits for."""
        mounted: dict[str, str] = {}
        waiting: dict[str, Reason] = {}
        volumes = list(self.of(pod_uid))
        for volume in volumes:
            volume.set_pod_view(pod_uid, mounted, waiting)
        return PodVolumes(
            wanted=pod_uid in self._wanting,
            mounted=mounted,
            read_only=frozenset[str]().union(*(volume.read_only_names(pod_uid) for volume in volumes)),
            waiting=waiting,
            stale=any(volume.stale and volume.holds(pod_uid) for volume in volumes),
            held=any(volume.holds(pod_uid) for volume in volumes),
            evicted=evicted,
            releasing=any(
                pod_uid not in volume.wants and pod_uid not in volume.adopted for volume in volumes
            ),
        )

    # --- what changes

    def found(self, record: VolumeRecord, mount_points: set[str]) -> None:
        """What an earlier agent left: it stays its pods'."""
        self.volumes[record.unique_name] = WantedVolume.found(record, mount_points)
        for pod_uid in record.pods:
            self._by_pod[pod_uid].add(record.unique_name)

    def wanting(self, pod_uid: str) -> None:
        """All that the pod wants is known."""
        self._wanting.add(pod_uid)

    def want(self, volume: WantedVolume, want: Want) -> None:
        """The pod wants a volume, which may be a new one."""
        name = volume.record.unique_name
        self.volumes[name] = volume
        volume.adopted.discard(want.pod.uid)
        volume.wants[want.pod.uid] = want
        self._by_pod[want.pod.uid].add(name)

    def release(self, pod_uid: str) -> list[WantedVolume]:
        """The pod wants nothing any more; the volumes of which that is new."""
        self._wanting.discard(pod_uid)
        return [volume for volume in self.of(pod_uid) if volume.drop(pod_uid)]

    def forget_pod(self, pod_uid: str, unique_name: str) -> None:
        """The pod neither wants nor holds the volume."""
        self._by_pod[pod_uid].discard(unique_name)
        if not self._by_pod[pod_uid]:
            del self._by_pod[pod_uid]

    def forget(self, volume: WantedVolume) -> None:
        """Drops the volume if nothing of it is left and no pod wants it."""
        name = volume.record.unique_name
        unused = not volume.in_use and not volume.wants and volume.record.empty
        if unused and self.volumes.get(name) is volume:
            del self.volumes[name]
            self._empty.set()
