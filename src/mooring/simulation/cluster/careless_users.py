"""What impatient users of a simulated cluster do: hold and strip finalizers, take away what is not bound,
make claims anew under their names, shrink workloads while their claims go.

A stripped finalizer gives up what it protects, and the trace shows it (`plan.stripped`, with the object):
checkers accept just that the object is gone. Of what a user strips he also tidies up the rest, as one has to:
the pod of a claim; the claim, and the disk, of a volume. Finalizers of VolumeAttachments are not stripped:
the record of what is attached where is all that there is.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from mooring.kube.errors import KubeError, NotFound
from mooring.kube.objects import (
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    VolumeAttachment,
)
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.users import AGAIN_S, Users, insist, is_kept, rolling_from
from mooring.simulation.cluster.workloads import (
    BROKEN,
    BY_HAND,
    EDITION,
    MADE_FOR,
    NAMESPACE,
    named_disk,
)
from mooring.simulation.parts.emptydir_plugin import fill
from mooring.simulation.parts.machine import FAILS, RUNS
from mooring.volumes.claims import claims_of

HOLD = "example.com/hold"
POLL_S = 0.2
LARGER = "2Gi"
"""What a claim asks for that is made anew."""


def hold_patch(found: Object, finalizer: str, *, there: bool) -> dict[str, Any]:
    """What gives the object this finalizer, after those of others, or takes it away."""
    others = [each for each in found.metadata.finalizers if each != finalizer]
    finalizers = [*others, finalizer] if there else others
    return {"metadata": {"finalizers": finalizers or None}}


class CarelessUsers:
    """All of them; each method is a kind of action."""

    def __init__(self, users: Users) -> None:
        self._users, self._cluster, self._api = users, users.cluster, users.api

    # --- finalizers

    async def hold(self, step: PlanStep) -> None:
        """A finalizer of another party keeps a pod (how 0), its claim (1) or the VolumeAttachment of its
        volume (2) for a while, which is deleted meanwhile. It insists until it is told that its finalizer is
        there: a write whose outcome is not known may take effect after it would have let go."""
        one = msgspec.structs.replace(step, how=2 * int(step.value))
        pod = await self._users.pod(one)
        if pod is None:
            return
        for kind, name, namespace in await self._held(pod, step.how):
            await insist(lambda k=kind, n=name, s=namespace: self._patch_finalizers(k, n, s, add=True))
            self._cluster.user.start(self._let_go(kind, name, namespace, step.value))
        delete = self._users.delete_claim if step.how == 1 else self._users.delete_pod
        await delete(one)

    async def _held(self, pod: Pod, how: int) -> list[tuple[type[Object], str, str]]:
        claims = [key.partition("/")[2] for key in claims_of(pod)]
        if how == 0:
            return [(Pod, pod.name, pod.namespace)]
        if how == 1:
            return [(PersistentVolumeClaim, claim, pod.namespace) for claim in claims]
        volumes = await self._volumes_of(claims)
        records = (await self._api.list(VolumeAttachment)).items
        return [
            (VolumeAttachment, each.name, "")
            for each in records
            if each.spec.source.persistent_volume_name in volumes
        ]

    async def _let_go(self, kind: type[Object], name: str, namespace: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await insist(lambda: self._patch_finalizers(kind, name, namespace, add=False))

    async def _patch_finalizers(self, kind: type[Object], name: str, namespace: str, *, add: bool) -> None:
        found = await self._api.find(kind, name, namespace)
        if found is None or (add and found.deleting):
            return
        if (HOLD in found.metadata.finalizers) != add:
            await self._api.revise(found, hold_patch(found, HOLD, there=add))

    async def strip_claim(self, step: PlanStep) -> None:
        """Deletes the claims of a pod, and takes their protection away; up to a minute later all pods that
        use what was theirs."""
        names = await self._claims(step)
        volumes = await self._volumes_of(names)
        for name in names:
            await self._delete_stripped(PersistentVolumeClaim, name, NAMESPACE)
        users = [pod for pod in (await self._api.list(Pod, NAMESPACE)).items if self._uses(pod, names)]
        for volume in volumes:
            self._users.replace_volume(volume, step)
        await asyncio.sleep(AGAIN_S * step.how / 2)
        for pod in users:
            self._cluster.user.start(insist(lambda pod=pod: self._delete_one(pod)))

    @staticmethod
    def _uses(pod: Pod, claims: list[str]) -> bool:
        return not {f"{NAMESPACE}/{name}" for name in claims}.isdisjoint(claims_of(pod))

    async def _delete_one(self, pod: Pod) -> None:
        """That one, not another of its name."""
        found = await self._api.find(Pod, pod.name, NAMESPACE)
        if found is not None and found.uid == pod.uid and not found.deleting:
            await self._api.delete(Pod, pod.name, NAMESPACE, uid=pod.uid)

    async def strip_volume(self, step: PlanStep) -> None:
        """Deletes the PersistentVolumes of a pod, and all that protects them; up to a minute later their
        claims and pods, and by hand what the storage has."""
        claims = [
            await self._api.find(PersistentVolumeClaim, name, NAMESPACE) for name in await self._claims(step)
        ]
        bound = [claim for claim in claims if claim is not None and claim.spec.volume_name]
        for claim in bound:
            await self._delete_stripped(PersistentVolume, claim.spec.volume_name, "")
        await asyncio.sleep(AGAIN_S * step.how / 2)
        for claim in bound:
            self._cluster.user.start(self._tidy_up(claim))

    async def restore_volume(self, step: PlanStep) -> None:
        """Deletes the PersistentVolume that was made for a workload's claim, and all that protects it; the
        claim has lost it then. It is made again as it was: at once, or half a minute or a minute later. One
        that is being deleted already, its user makes again."""
        volume = named_disk(step.on)
        found = await self._api.find(PersistentVolume, volume)
        if found is not None and not found.deleting:
            await self._delete_stripped(PersistentVolume, volume, "")
            await asyncio.sleep(AGAIN_S * step.how / 2)
            await self._users.create_volume(volume)

    async def _tidy_up(self, claim: PersistentVolumeClaim) -> None:
        """A claim that has lost its volume, with its pods, and the disk, which nothing names any more."""
        await insist(lambda: self._delete_with_pods(claim))
        await insist(lambda: self._delete_disk(claim.spec.volume_name))

    async def _delete_with_pods(self, claim: PersistentVolumeClaim) -> None:
        """Raises KubeError until the claim is gone."""
        found = await self._api.find(PersistentVolumeClaim, claim.name, NAMESPACE)
        if found is None or found.uid != claim.uid:
            return
        await self._api.delete(PersistentVolumeClaim, claim.name, NAMESPACE, uid=claim.uid)
        for pod in (await self._api.list(Pod, NAMESPACE)).items:
            if claim.key in claims_of(pod) and not pod.deleting:
                with suppress(NotFound):  # who tidies up another claim of the pod was first
                    await self._api.delete(Pod, pod.name, NAMESPACE, uid=pod.uid)
        raise KubeError("the claim is still there")

    async def _delete_stripped(self, kind: type[Object], name: str, namespace: str) -> None:
        async def strip() -> None:
            found = await self._api.get(kind, name, namespace)
            if isinstance(found, PersistentVolumeClaim) and not found.spec.volume_name:
                return  # another finalizer is all that knows of a disk that is being made
            resource = kind.RESOURCE.plural
            where = f"{namespace}/{name}" if namespace else name
            self._cluster.trace("user", "plan.stripped", resource=resource, name=where, uid=found.uid)
            await self._api.revise(found, {"metadata": {"finalizers": None}}, any_version=True)
            await self._api.delete(kind, name, namespace, uid=found.uid)
            left = await self._api.find(kind, name, namespace)
            if left is not None and left.uid == found.uid and left.metadata.finalizers:
                await self._api.revise(left, {"metadata": {"finalizers": None}}, any_version=True)

        await self._cluster.as_user(strip)

    async def _delete_disk(self, disk: str) -> None:
        """Raises KubeError while a VolumeAttachment of it is left, or the storage has it attached."""
        array, records = self._cluster.array, (await self._api.list(VolumeAttachment)).items
        recorded = any(each.spec.source.persistent_volume_name == disk for each in records)
        volume = await self._api.find(PersistentVolume, disk)
        used = disk in array.attached or any(disk == each for each, _ in array.mounted)
        if recorded or used or volume is not None:
            raise KubeError("it is still used")
        if disk in array.disks:  # else another user has deleted it
            array.delete(disk)

    # --- claims and volumes that come and go

    async def delete_unbound(self, step: PlanStep) -> None:
        """Deletes all PersistentVolumes that are bound to no claim. Those that were made by hand are made
        again, a minute later."""
        for volume in (await self._api.list(PersistentVolume)).items:
            if volume.status.phase == "Bound" or is_kept(volume):
                continue
            await self._cluster.as_user(
                lambda v=volume: self._api.delete(PersistentVolume, v.name, uid=v.uid)
            )
            if volume.spec.storage_class_name in BY_HAND:
                self._cluster.user.start(self._make_again(volume.name))

    async def keep_volume(self, step: PlanStep) -> None:
        """The volumes of a pod are to be kept when their claims are gone."""

        async def keep(name: str) -> None:
            volume = await self._api.get(PersistentVolume, name)
            if not volume.deleting:  # else its disk would be left
                await self._api.revise(volume, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})

        for volume in await self._volumes_of(await self._claims(step)):
            await self._cluster.as_user(lambda v=volume: keep(v))

    async def delete_released(self, step: PlanStep) -> None:
        """Deletes the volumes that are kept after their claims, and by hand their disks."""
        for volume in await self._released():
            await self._cluster.as_user(
                lambda v=volume: self._api.delete(PersistentVolume, v.name, uid=v.uid)
            )
            self._cluster.user.start(insist(lambda v=volume: self._delete_disk(v.name)))

    async def give_back(self, step: PlanStep) -> None:
        """Keeps each volume that has lost its claim for the next claim of that name."""

        async def give_back(volume: PersistentVolume) -> None:
            claim = volume.spec.claim_ref
            assert claim is not None
            to = {"namespace": claim.namespace, "name": claim.name, "uid": None, "resourceVersion": None}
            self._cluster.trace("user", "plan.given-back", volume=volume.name)
            await self._api.revise(volume, {"spec": {"claimRef": to}})

        for volume in await self._released():
            await self._cluster.as_user(lambda v=volume: give_back(v))

    async def _released(self) -> list[PersistentVolume]:
        """What is kept, and no node has."""
        records = {
            each.spec.source.persistent_volume_name for each in (await self._api.list(VolumeAttachment)).items
        }
        return [
            each
            for each in (await self._api.list(PersistentVolume)).items
            if is_kept(each) and each.status.phase == "Released" and each.name not in records
        ]

    async def _make_again(self, volume: str) -> None:
        await asyncio.sleep(AGAIN_S)
        await self._users.create_volume(volume)

    async def replace_claim(self, step: PlanStep) -> None:
        """Deletes a claim with its pod, and makes it anew as soon as its name is free, of another size."""
        for name in await self._claims(step):
            claim = await self._api.find(PersistentVolumeClaim, name, NAMESPACE)
            if claim is None or claim.spec.storage_class_name in BY_HAND:
                continue
            await self._cluster.as_user(lambda n=name: self._api.delete(PersistentVolumeClaim, n, NAMESPACE))
            body = {
                "metadata": {
                    "name": name,
                    "labels": dict(claim.metadata.labels),
                    "annotations": {MADE_FOR: claim.metadata.annotations.get(MADE_FOR)},
                },
                "spec": {
                    "accessModes": list(claim.spec.access_modes),
                    **({"volumeMode": "Block"} if claim.spec.volume_mode == "Block" else {}),
                    "storageClassName": claim.spec.storage_class_name,
                    "resources": {"requests": {"storage": LARGER}},
                },
            }
            self._cluster.user.start(self._create_soon(body))
        await self._users.delete_pod(step)

    async def _create_soon(self, body: dict[str, Any]) -> None:
        until = asyncio.get_running_loop().time() + AGAIN_S
        while asyncio.get_running_loop().time() < until:
            try:
                await self._api.create(PersistentVolumeClaim, body, NAMESPACE)
                return
            except KubeError:
                await asyncio.sleep(POLL_S)

    async def break_set(self, step: PlanStep) -> None:
        """Gives a StatefulSet a template whose containers fail, and mends it after a while: for all its pods,
        as a partition would keep some of the mistake once that was rolled out."""

        async def give(command: str, broken: str | None) -> None:
            found = await self._api.get(StatefulSet, step.on, NAMESPACE)
            container = found.spec.template["spec"]["containers"][0] | {"command": [command]}
            annotations = {BROKEN: broken, EDITION: f"{step.at:.3f} {command}"}
            template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
            rolling = {} if broken else {"updateStrategy": rolling_from(0)}
            await self._api.patch(
                StatefulSet, step.on, {"spec": {"template": template, **rolling}}, NAMESPACE
            )

        await insist(lambda: give(FAILS, "yes"))
        await asyncio.sleep(step.value)
        await insist(lambda: give(RUNS, None))

    async def strip_labels(self, step: PlanStep) -> None:
        """Takes from a pod the labels that name its identity; how odd: and its owner."""
        labels = {"statefulset.kubernetes.io/pod-name": None, "apps.kubernetes.io/pod-index": None}
        pod = await self._users.pod(step)
        if pod is not None and not pod.deleting:
            owners = {"ownerReferences": None} if step.how % 2 else {}
            patch = {"metadata": {"labels": labels} | owners}
            await self._cluster.as_user(lambda: self._api.revise(pod, patch, any_version=True))

    async def take_aside(self, step: PlanStep) -> None:
        """Takes the label from a pod by which its StatefulSet selects it: to find out what is wrong with it,
        as upstream's documentation says ("Isolating Pods from a ReplicaSet"). It keeps its name meanwhile."""
        pod = await self._users.pod(step)
        if pod is None or pod.deleting:
            return
        aside = {"metadata": {"labels": {"app": None}}}
        await self._cluster.as_user(lambda: self._api.revise(pod, aside, any_version=True))
        await asyncio.sleep(step.value)
        await insist(lambda: self._api.delete(Pod, pod.name, pod.namespace, uid=pod.uid))

    async def fill(self, step: PlanStep) -> None:
        """A pod puts more into its emptyDir than that may hold."""
        pod = await self._users.pod(step)
        machine = self._cluster.machines.get(pod.spec.node_name) if pod is not None else None
        if pod is not None and machine is not None and fill(machine.root, pod.uid):
            self._cluster.trace(machine.name, "truth.filled", uid=pod.uid, pod=pod.key)

    async def shrink_set(self, step: PlanStep) -> None:
        """Scales a StatefulSet down, deletes the claims of the pods that go, and scales it up again while
        they still do."""
        found = await self._api.find(StatefulSet, step.on, NAMESPACE)
        if found is None:
            return
        left = max(found.spec.replicas - 1 - step.how, 0)
        await self._users.scale(msgspec.structs.replace(step, value=float(left)))
        for claim in (await self._api.list(PersistentVolumeClaim, NAMESPACE)).items:
            owner, _, number = claim.name.rpartition("-")
            if owner.endswith(f"-{step.on}") and number.isdigit() and int(number) >= left:
                await self._users.delete_claim_named(claim.name, step)
        await asyncio.sleep(step.value)
        await self._users.scale(
            msgspec.structs.replace(step, value=float(self._cluster.scenario.sets[step.on]))
        )

    # --- what they look at

    async def _claims(self, step: PlanStep) -> list[str]:
        pod = await self._users.pod(step)
        return [key.partition("/")[2] for key in claims_of(pod)] if pod is not None else []

    async def _volumes_of(self, claims: list[str]) -> list[str]:
        found = [await self._api.find(PersistentVolumeClaim, name, NAMESPACE) for name in claims]
        return [claim.spec.volume_name for claim in found if claim is not None and claim.spec.volume_name]
