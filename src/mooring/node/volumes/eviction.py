"""Looks at regular times at what pods have put into their volumes, and names those that have to end for it.

The pod worker ends them. A pod that was named once stays named, even if it removes files meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from mooring.kube.objects import Pod
from mooring.kube.reason import Reason
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.volume import Want, WantedVolume
from mooring.volumes.errors import VolumeError

PERIOD_S = 10.0
"""Between two looks (upstream: 10 s)."""

log = structlog.get_logger("node-agent")


class Evictions:
    """`evict(pod, why)` is called once for each pod that must end."""

    def __init__(
        self,
        operations: Operations,
        volumes: Mapping[str, WantedVolume],
        evict: Callable[[Pod, Reason], None],
    ) -> None:
        self._operations = operations
        self._volumes = volumes
        self._evict = evict
        self._reasons: dict[str, Reason] = {}
        self._any = asyncio.Event()  # maybe there is something to look at

    def look_at(self, volume: WantedVolume) -> None:
        """A pod wants this volume. One with a device is never larger than that."""
        if not volume.record.has_device:
            self._any.set()

    def reason(self, pod_uid: str) -> Reason | None:
        """Why the pod must end, if it must."""
        return self._reasons.get(pod_uid)

    def forget(self, pod_uid: str) -> None:
        """The pod is gone."""
        self._reasons.pop(pod_uid, None)

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await self._any.wait()
            await asyncio.sleep(PERIOD_S)
            volumes = [volume for volume in self._volumes.values() if not volume.record.has_device]
            if not volumes:
                self._any.clear()
            for volume in volumes:
                for pod_uid, want in list(volume.wants.items()):
                    if self._may_be_evicted(want) and volume.pods.get(pod_uid) is Presence.PRESENT:
                        await self._look(volume, want)

    def _may_be_evicted(self, want: Want) -> bool:
        """Not if it was named already, nor one that ends anyway: it may be gone from the API."""
        return want.starting and want.pod.uid not in self._reasons

    async def _look(self, volume: WantedVolume, want: Want) -> None:
        try:
            why = await self._operations.limit_exceeded(volume, want)
        except (VolumeError, OSError) as error:
            log.warning("volume not measured", volume=volume.record.unique_name, error=str(error))
            return
        if why is not None and self._may_be_evicted(want):
            self._reasons[want.pod.uid] = Reason("Evicted", why)
            self._evict(want.pod, self._reasons[want.pod.uid])
