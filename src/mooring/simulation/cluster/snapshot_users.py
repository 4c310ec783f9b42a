"""Users who take snapshots of a workload's claims, and who make claims that are copies: of a snapshot, or of
another claim.

They tidy up: a copy goes when the pod has ended that uses it, a snapshot after a while; both before the
last fault is over, but for snapshots that are to stay. Of those, one goes that can never be taken, as its
claim, or its disk, was deleted before it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from mooring.kube.errors import KubeError, NotFound
from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.kube.objects.snapshots import GROUP, VolumeSnapshot, VolumeSnapshotContent
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.snapshot_class import RETAINED_CLASS, SNAPSHOT_CLASS
from mooring.simulation.cluster.snapshot_heirs import SnapshotHeirs
from mooring.simulation.cluster.users import Users, insist
from mooring.simulation.cluster.workloads import NAMESPACE, copy_of
from mooring.simulation.engine.randomness import stream
from mooring.volumes.claims import claims_of

OF = "example.com/of"
"""The label of a snapshot that says of which workload it is."""
SOURCE_GOES_TOO = 1
"""`how` of a snapshot whose claim is deleted with its pod as soon as it was asked for, and of a copy whose
original is deleted in that moment."""
TWO = 2
"""`how` of two snapshots of a claim at once."""
AT_ONCE, SOON = 1, 2
"""`how` of the deletion of a snapshot that has just been asked for."""
SOON_S = 3.0
CUT_SHORT = 2
"""`how` of a copy that goes after a while, however far it has come."""
PATIENCE_S = 150.0
"""So long a user waits for the pod that uses a copy."""
LOOK_S = 5.0
STAY, RETAINED = 0.4, 0.2
"""The share of snapshots that stay until the end of a run, and of those that the storage is to keep when they
are deleted."""


class SnapshotUsers:
    """All of them; each method is a kind of action."""

    def __init__(self, users: Users) -> None:
        self._users, self._cluster, self._api = users, users.cluster, users.api
        self._heirs = SnapshotHeirs(users.cluster)
        self._made = 0

    async def take_snapshot(self, step: PlanStep) -> None:
        """Of a claim in use; `how` 1: and only the snapshot is kept of it. 2: two at once."""
        pod, claim = await self._one_of(step)
        for _ in range(2 if step.how == TWO else 1):
            if claim:
                await self._take(claim, step)
        if step.how == SOURCE_GOES_TOO and pod is not None:
            await self._delete_claim(claim, pod)

    async def delete_snapshot(self, step: PlanStep) -> None:
        """One that is there; `how` 1: one that was asked for just before. 2: a moment before."""
        if step.how in (AT_ONCE, SOON):
            _, claim = await self._one_of(step)
            name = await self._take(claim, step) if claim else ""
            await asyncio.sleep(min(step.value, SOON_S) if step.how == SOON else 0)
        else:
            name = await self._snapshot(step)
        if name:
            await self._cluster.as_user(lambda: self._api.delete(VolumeSnapshot, name, NAMESPACE))

    async def restore_snapshot(self, step: PlanStep) -> None:
        """A claim of a snapshot that is there, or is taken for it, and a pod that uses it; `how` 1: the
        snapshot is deleted in that moment. 2: they go early."""
        name = await self._there_or_taken(step)
        if name and step.how == SOURCE_GOES_TOO:
            self._cluster.user.start(insist(lambda: self._api.delete(VolumeSnapshot, name, NAMESPACE)))
        if name:
            await self._copy(step, {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": name})

    async def copy_claim(self, step: PlanStep) -> None:
        """A claim that is to hold what another one holds, and a pod that uses it; `how` 1: the original is
        deleted in that moment. 2: they go early."""
        pod, claim = await self._one_of(step)
        if pod is None or not claim:
            return
        if step.how == SOURCE_GOES_TOO:
            self._cluster.user.start(self._delete_claim(claim, pod))
        await self._copy(step, {"kind": "PersistentVolumeClaim", "name": claim})

    async def adopt_snapshot(self, step: PlanStep) -> None:
        """What the storage keeps of one that is there, or is taken for it, is handed on to another (`how`:
        `snapshot_heirs`)."""
        name = await self._there_or_taken(step, RETAINED_CLASS)
        if name:
            self._cluster.user.start(self._hand_on(name, step))

    # --- claims and snapshots

    async def _one_of(self, step: PlanStep) -> tuple[Pod | None, str]:
        """One of a workload's pods, and its claim; "": there is none."""
        pod = await self._users.pod(msgspec.structs.replace(step, how=int(1000 * step.value)))
        claims = [key.partition("/")[2] for key in claims_of(pod)] if pod is not None else []
        return pod, claims[0] if claims else ""

    async def _there_or_taken(self, step: PlanStep, of_class: str = "") -> str:
        """One of a workload's snapshots, which is taken if there is none; "": there is no claim."""
        if name := await self._snapshot(step, of_class):
            return name
        _, claim = await self._one_of(step)
        return await self._take(claim, step, of_class) if claim else ""

    async def _snapshot(self, step: PlanStep, of_class: str = "") -> str:
        """One of a workload's snapshots, of that class if it names one; "": there is none."""
        found = (await self._api.list(VolumeSnapshot, NAMESPACE, label_selector=f"{OF}={step.on}")).items
        names = sorted(
            each.name
            for each in found
            if not each.deleting and of_class in ("", each.spec.volume_snapshot_class_name)
        )
        return names[int(1000 * step.value) % len(names)] if names else ""

    async def _delete_claim(self, claim: str, pod: Pod) -> None:
        await self._cluster.as_user(lambda: self._api.delete(PersistentVolumeClaim, claim, NAMESPACE))
        await self._cluster.as_user(lambda: self._api.delete(Pod, pod.name, NAMESPACE, uid=pod.uid))

    async def _take(self, claim: str, step: PlanStep, of_class: str = "") -> str:
        name = self._name()
        retained = stream(self._cluster.seed, f"class of {name}").random() < RETAINED
        of_class = of_class or (RETAINED_CLASS if retained else SNAPSHOT_CLASS)
        spec = {"source": {"persistentVolumeClaimName": claim}, "volumeSnapshotClassName": of_class}
        body = {"metadata": {"name": name, "labels": {OF: step.on}}, "spec": spec}
        await self._cluster.as_user(lambda: self._api.create(VolumeSnapshot, body, NAMESPACE))
        self._cluster.user.start(self._look_after(name))
        return name

    async def _hand_on(self, name: str, step: PlanStep) -> None:
        heir = self._name()
        if await self._heirs.hand_on(name, heir, {OF: step.on}, step):
            await self._look_after(heir)

    def _name(self) -> str:
        self._made += 1
        return f"snapshot-{self._made}"

    async def _look_after(self, name: str) -> None:
        """Deletes a snapshot after a while, or if nothing can come of it any more."""
        chance = stream(self._cluster.seed, f"life of {name}")
        stays = chance.random() < STAY
        await self._until_healed(chance.expovariate(1 / PATIENCE_S) if not stays else self._cluster.left_s)
        while stays and not await self._is_hopeless(name):
            if await self._is_ready(name):
                return
            await asyncio.sleep(LOOK_S)
        await insist(lambda: self._api.delete(VolumeSnapshot, name, NAMESPACE))

    async def _is_ready(self, name: str) -> bool:
        """Also of one that is gone."""
        with suppress(KubeError):
            found = await self._api.find(VolumeSnapshot, name, NAMESPACE)
            return found is None or found.deleting or found.status.ready_to_use
        return False

    async def _is_hopeless(self, name: str) -> bool:
        """Whether users have taken away what it was to be taken of: its claim, or (who strips finalizers does
        that) the disk; or the content that it names."""
        try:
            snapshot = await self._api.get(VolumeSnapshot, name, NAMESPACE)
            if snapshot.deleting or snapshot.status.ready_to_use:
                return False
            if named := snapshot.spec.source.volume_snapshot_content_name:
                content = await self._api.find(VolumeSnapshotContent, named)
                return content is None or content.deleting
            content = await self._api.find(VolumeSnapshotContent, f"snapcontent-{snapshot.uid}")
            if content is not None:
                return not self._cluster.has_disk(content.spec.source.volume_handle or "")
            source = snapshot.spec.source.persistent_volume_claim_name or ""
            claim = await self._api.find(PersistentVolumeClaim, source, NAMESPACE)
        except NotFound:
            return True
        except KubeError:
            return False
        return claim is None or claim.deleting or claim.status.phase == "Lost"

    # --- copies

    async def _copy(self, step: PlanStep, source: Mapping[str, str]) -> None:
        self._made += 1
        name = f"copy-{self._made}"
        for kind, body in copy_of(name, source):
            await self._cluster.as_user(lambda k=kind, b=body: self._api.create(k, b, NAMESPACE))
        lasts_s = step.value if step.how == CUT_SHORT else PATIENCE_S
        self._cluster.user.start(self._tidy_up(name, min(lasts_s, self._cluster.left_s)))

    async def _tidy_up(self, name: str, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            if await self._has_ended(name):
                break
            await asyncio.sleep(min(left, LOOK_S))
        await insist(lambda: self._api.delete(Pod, name, NAMESPACE))
        await insist(lambda: self._api.delete(PersistentVolumeClaim, name, NAMESPACE))

    async def _has_ended(self, name: str) -> bool:
        """Also of a pod that is gone: of a node that was drained it does not come back."""
        with suppress(KubeError):
            pod = await self._api.find(Pod, name, NAMESPACE)
            return pod is None or pod.finished
        return False

    async def _until_healed(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, self._cluster.left_s))
