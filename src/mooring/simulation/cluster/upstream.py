"""Upstream's attach/detach controller, at work for a while in place of ours: as far as it makes
VolumeAttachments.

Its VolumeAttachments name a PersistentVolume, and nothing of ours: what takes over has to find out which
volume each is about (`controllers/attachdetach/adoption.py`).
"""

from __future__ import annotations

import asyncio

from mooring.kube.errors import KubeError
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.simulation.cluster.scenario import PlanStep
from mooring.simulation.cluster.users import Users
from mooring.simulation.cluster.workloads import NAMESPACE
from mooring.volumes.claims import claims_of
from mooring.volumes.exclusivity import SHARED_MODES
from mooring.volumes.names import CSI_PLUGIN, csi_volume_name, volume_attachment_name

POLL_S, PATIENCE = 1.0, 60
"""So often, and so many times, it is looked whether all is detached, and then for pods that have a node."""


class Upstream:
    """One life of it is `attach`."""

    def __init__(self, users: Users) -> None:
        self._users, self._api, self._cluster = users, users.api, users.cluster

    async def attach(self, name: str, replicas: float) -> None:
        """Once nothing of the workload is attached: ours ends, its pods are wanted again, and upstream's
        makes their VolumeAttachments. Ours has to be started again."""
        volumes = await self._volumes(name)
        await self._users.scale(PlanStep(0, "scale", name, 0.0))
        for _ in range(PATIENCE):
            await asyncio.sleep(POLL_S)
            if not await self._attached(volumes):
                break
        else:
            volumes.clear()
        if asyncio.get_running_loop().time() >= self._cluster.scenario.heal_s:
            volumes.clear()
        ours = self._cluster.processes["attaching"]
        life = ours.life
        if volumes:
            ours.kill()
        await self._users.scale(PlanStep(0, "scale", name, replicas))
        for _ in range(PATIENCE if volumes else 0):
            await asyncio.sleep(POLL_S)
            # Another fault of ours, or another turn of upstream's, may have ended and started it again: only
            # one of the two is at work.
            if ours.life != life or await self._made(name, volumes) >= replicas:
                break

    async def _volumes(self, name: str) -> dict[str, PersistentVolume]:
        """Those of its pods' claims, by claim."""
        found: dict[str, PersistentVolume] = {}
        for pod in await self._pods(name):
            for key in claims_of(pod):
                claim = await self._api.find(PersistentVolumeClaim, key.partition("/")[2], NAMESPACE)
                bound = claim.spec.volume_name if claim is not None else ""
                volume = await self._api.find(PersistentVolume, bound) if bound else None
                if volume is not None and volume.spec.csi is not None:
                    found[key] = volume
        return found

    async def _pods(self, name: str) -> list[Pod]:
        return [*(await self._api.list(Pod, NAMESPACE, label_selector=f"app={name}")).items]

    async def _attached(self, volumes: dict[str, PersistentVolume]) -> bool:
        records = (await self._api.list(VolumeAttachment)).items
        names = {each.name for each in volumes.values()}
        return any(each.spec.source.persistent_volume_name in names for each in records)

    async def _made(self, name: str, volumes: dict[str, PersistentVolume]) -> int:
        """Makes the VolumeAttachments of pods that have a node; how many there are now."""
        made = 0
        for pod in await self._pods(name):
            for volume in [volumes[key] for key in claims_of(pod) if key in volumes and pod.spec.node_name]:
                source = volume.spec.csi
                assert source is not None
                if await self._may_have(pod.spec.node_name, volume):
                    await self._create(source.driver, source.volume_handle, volume.name, pod.spec.node_name)
                    made += 1
        return made

    async def _may_have(self, node: str, volume: PersistentVolume) -> bool:
        """A volume that nodes cannot share gets no second one: its pod has moved meanwhile (upstream's
        `reconciler.go:attachDesiredVolumes`, which reports a multi-attach error)."""
        if not SHARED_MODES.isdisjoint(volume.spec.access_modes):
            return True
        records = (await self._api.list(VolumeAttachment)).items
        return all(
            each.spec.node_name == node
            for each in records
            if each.spec.source.persistent_volume_name == volume.name
        )

    async def _create(self, driver: str, handle: str, volume: str, node: str) -> None:
        name = volume_attachment_name(CSI_PLUGIN, csi_volume_name(driver, handle), node)
        spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
        try:
            await self._api.create(VolumeAttachment, {"metadata": {"name": name}, "spec": spec})
        except KubeError:  # it is there, or the API server does not answer: it is looked at again
            return
