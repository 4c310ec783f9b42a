"""Users who hand on what the storage keeps of a VolumeSnapshot: they delete that, whose class has the policy
Retain, and then its content; a content that they make by hand names what is kept, and another VolumeSnapshot
names the content. So the CSI community's documentation has it (pre-provisioned snapshots).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from mooring.kube.errors import KubeError
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotContent
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.snapshot_class import POLICIES
from mooring.simulation.cluster.users import insist
from mooring.simulation.cluster.workloads import NAMESPACE
from mooring.simulation.engine.randomness import stream

CONTENT_LAST = 1
"""`how` of an heir that is there before its content."""
CONTENT_GOES = 2
"""`how` of one whose content is held already (else its user would give up what is kept), and is deleted as
soon as both are there."""
SOON_S, LOOK_S, OFTEN_S = 3.0, 2.0, 0.01


class SnapshotHeirs:
    """Of one cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster, self._api = cluster, cluster.api

    async def hand_on(self, name: str, heir: str, labels: dict[str, str], step: PlanStep) -> bool:
        """Gives what is kept of `name` to `heir`. Returns whether there is one: what is not ready, or does
        not go, before the last fault is over, is left as it is."""
        content = await self._ready(name)
        if content is None or not await self._gone(VolumeSnapshot, name, NAMESPACE):
            return False
        if not await self._gone(VolumeSnapshotContent, content.name):
            return False
        policy = stream(self._cluster.seed, f"policy of {heir}").choice(sorted(POLICIES.values()))
        await self._make(heir, labels, self._content(heir, content, policy), step)
        return True

    async def _ready(self, name: str) -> VolumeSnapshotContent | None:
        """Its content, as soon as what the storage has can be used."""
        while self._cluster.left_s > 0:
            with suppress(KubeError):
                snapshot = await self._api.find(VolumeSnapshot, name, NAMESPACE)
                if snapshot is None or snapshot.deleting:
                    return None
                named = snapshot.status.bound_volume_snapshot_content_name
                content = await self._api.find(VolumeSnapshotContent, named) if named else None
                if content is not None and content.status.ready_to_use:
                    return content if content.spec.deletion_policy == "Retain" else None
            await asyncio.sleep(LOOK_S)
        return None

    async def _gone(
        self, kind: type[VolumeSnapshot | VolumeSnapshotContent], name: str, namespace: str = ""
    ) -> bool:
        """Deletes it, and waits until it is gone."""
        await insist(lambda: self._api.delete(kind, name, namespace))
        while self._cluster.left_s > 0:
            with suppress(KubeError):
                if await self._api.find(kind, name, namespace) is None:
                    return True
            await asyncio.sleep(LOOK_S)
        return False

    def _content(self, heir: str, kept: VolumeSnapshotContent, policy: str) -> dict[str, Any]:
        spec = {
            "deletionPolicy": policy,
            "driver": kept.spec.driver,
            "source": {"snapshotHandle": kept.status.snapshot_handle},
            "volumeSnapshotClassName": kept.spec.volume_snapshot_class_name,
            "volumeSnapshotRef": {"name": heir, "namespace": NAMESPACE},
        }
        return {"metadata": {"name": f"kept-for-{heir}"}, "spec": spec}

    async def _make(self, heir: str, labels: dict[str, str], content: dict[str, Any], step: PlanStep) -> None:
        name = content["metadata"]["name"]
        snapshot = {
            "metadata": {"name": heir, "labels": labels},
            "spec": {"source": {"volumeSnapshotContentName": name}},
        }
        made = [
            lambda: self._api.create(VolumeSnapshotContent, content),
            lambda: self._api.create(VolumeSnapshot, snapshot, NAMESPACE),
        ]
        first, second = reversed(made) if step.how == CONTENT_LAST else made
        await self._cluster.as_user(first)
        await asyncio.sleep(min(step.value, SOON_S) if step.how == CONTENT_LAST else 0)
        goes = step.how == CONTENT_GOES and await self._is_held(name)
        await self._cluster.as_user(second)
        if goes:
            await insist(lambda: self._api.delete(VolumeSnapshotContent, name))

    async def _is_held(self, name: str) -> bool:
        """Whether the content is held, soon."""
        for _ in range(int(SOON_S / OFTEN_S)):
            with suppress(KubeError):
                content = await self._api.find(VolumeSnapshotContent, name)
                if content is None or content.metadata.finalizers:
                    return content is not None
            await asyncio.sleep(OFTEN_S)
        return False
