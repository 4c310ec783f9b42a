"""The binder: binds claims to volumes, keeps their phases, and removes protection finalizers
from unused objects.

Making and deleting volumes is the provisioner's work.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, assert_never

from mooring.controllers.binding.decide import (
    Action,
    ClaimDecision,
    VolumeAction,
    decide_claim,
    decide_volume,
    resizer_of,
    why_lost,
)
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import Object, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from mooring.kube.times import Now
from mooring.volumes.claims import CLAIM_PROTECTION, claim_keys_in_use, claims_of
from mooring.volumes.default_class import default_class, is_default
from mooring.volumes.free_volumes import FreeVolumes, is_free
from mooring.volumes.matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PRE_RESIZE_CAPACITY,
    STORAGE_PROVISIONER,
    claim_reference,
    unbound,
)
from mooring.volumes.migration import driver_of

VOLUME_PROTECTION = "kubernetes.io/pv-protection"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
RESIZER = "volume.kubernetes.io/storage-resizer"
WITHOUT_VOLUME = {"accessModes": None, "capacity": None, "currentVolumeAttributesClassName": None}
"""What the status of a claim that has no volume does not say."""


Key = ClaimKey | VolumeKey


class BindingController(Controller[Key]):
    """Upstream's persistentvolume-binder, pvprotection and pvcprotection in one, and of its expand controller
    what is left of it: it names the resizer of former in-tree volumes. Claims are bound side by side, each to
    a volume that no other is being bound to."""

    name = "persistentvolume-controller"
    workers = 16

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._claims = self.watch(
            PersistentVolumeClaim,
            self._touched_by_claim,
            indexers={"volume": _volume_of, "waiting": _class_waited_for},
        )
        self._volumes = self.watch(
            PersistentVolume,
            self._touched_by_volume,
            differ=self._touched_by_change,
            indexers={"claim": _claimed_by},
        )
        self._free = FreeVolumes()
        self._volumes.add_handler(self._free.update)
        self._chosen: set[str] = set()  # volumes that claims are being bound to
        self._classes = self.watch(StorageClass, self._touched_by_class)
        self._pods = self.watch(
            Pod,
            lambda pod: [ClaimKey(key) for key in claims_of(pod)],
            matters=lambda pod: (pod.uid, pod.spec.node_name, *claim_keys_in_use(pod)),
            indexers={"claim": claims_of},
        )

    def _touched_by_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        """The claim, the volumes that name it, and the one that it names: that stays for it."""
        yield ClaimKey(claim.key)
        named = {pv.name for pv in self._volumes.by_index("claim", claim.key)}
        for name in sorted(named | {claim.spec.volume_name} - {""}):
            yield VolumeKey(name)

    def _touched_by_volume(self, pv: PersistentVolume) -> Iterable[Key]:
        yield from self._connected(pv)
        if is_free(pv):
            yield from self._waiting_for_class(pv.spec.storage_class_name)

    def _touched_by_change(self, old: PersistentVolume, new: PersistentVolume) -> Iterable[Key]:
        """A volume that is free no more is nothing to the claims that wait: each binding would mark all."""
        return dict.fromkeys((*self._connected(old), *self._touched_by_volume(new)))

    def _connected(self, pv: PersistentVolume) -> Iterable[Key]:
        """The volume, the claim that it names, and those that name it."""
        yield VolumeKey(pv.name)
        reference = pv.spec.claim_ref
        if reference is not None:
            yield ClaimKey(f"{reference.namespace}/{reference.name}")
        yield from (ClaimKey(claim.key) for claim in self._claims.by_index("volume", pv.name))

    def _touched_by_class(self, storage_class: StorageClass) -> Iterable[Key]:
        yield from self._waiting_for_class(storage_class.name)
        if is_default(storage_class):
            yield from self._waiting_for_class("")

    def _waiting_for_class(self, name: str) -> list[ClaimKey]:
        return [ClaimKey(claim.key) for claim in self._claims.by_index("waiting", name)]

    def concerned(self, key: Key) -> list[tuple[Object | None, str]]:
        cache = self._claims if isinstance(key, ClaimKey) else self._volumes
        return [(cache.get(key.name), "FailedBinding")]

    async def reconcile(self, key: Key) -> None:
        """Takes one claim or one volume as far as it goes now."""
        if isinstance(key, ClaimKey):
            claim = self._claims.get(key.name)
            if claim is not None and claim.deleting:
                await self._reconcile_ending_claim(claim)
            elif claim is not None:
                await self._reconcile_claim(await self._protected_claim(claim))
        elif (pv := self._volumes.get(key.name)) is not None:
            await self._reconcile_volume(await self._protected_volume(pv))

    async def _protected_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Gives a claim its protection again if a user has removed it: what uses the claim is not asked for
        otherwise when it is deleted."""
        if CLAIM_PROTECTION in claim.metadata.finalizers:
            return claim
        finalizers = [*claim.metadata.finalizers, CLAIM_PROTECTION]
        return await self._patch_claim(claim, {"metadata": {"finalizers": finalizers}})

    async def _protected_volume(self, pv: PersistentVolume) -> PersistentVolume:
        """The same for a volume."""
        if pv.deleting or VOLUME_PROTECTION in pv.metadata.finalizers:
            return pv
        finalizers = [*pv.metadata.finalizers, VOLUME_PROTECTION]
        return await self._patch_volume(pv, {"metadata": {"finalizers": finalizers}})

    # --- claims

    async def _reconcile_claim(self, claim: PersistentVolumeClaim) -> None:
        named = self._volumes.get(claim.spec.volume_name)
        storage_class = self._classes.get(claim.storage_class)
        default = default_class(self._classes.items())
        decision = decide_claim(claim, named, self._free, storage_class, default, self._chosen)
        match decision.action:
            case Action.BIND:
                assert decision.volume is not None
                await self._bind_alone(claim, decision.volume)
            case Action.PROVISION:
                assert storage_class is not None
                await self._ask_provisioner(claim, driver_of(storage_class.provisioner))
                self.recorder.once(claim, "Normal", decision.reason)
            case Action.ASSIGN_CLASS:
                await self._assign_class(claim)
            case Action.WAIT:
                await self._wait(claim, decision)
            case Action.LOST:
                await self._lose(claim, decision)
            case _:
                assert_never(decision.action)

    async def _lose(self, claim: PersistentVolumeClaim, decision: ClaimDecision) -> None:
        """Says that the claim has lost its volume, for which its pods are stopped: so the volume is read live
        before. A cache that is late may show it as gone, or as another claim's."""
        if claim.status.phase != "Lost":
            name = claim.spec.volume_name
            live = await self.client.find(PersistentVolume, name) if name else None
            if why_lost(claim, live) is None:
                assert live is not None
                self._volumes.accept(live)  # which marks the claim
                return
            await self._patch_claim(claim, {"status": {**WITHOUT_VOLUME, "phase": "Lost"}}, "status")
        self.recorder.once(claim, "Warning", decision.reason)

    async def _assign_class(self, claim: PersistentVolumeClaim) -> None:
        """Gives the claim the default class, which is newer than the claim; the write marks the claim
        again."""
        default = default_class(self._classes.items())
        assert default is not None
        await self._classes.confirm(default)  # a claim keeps its class for good
        await self._patch_claim(claim, {"spec": {"storageClassName": default.name}})
        self.log.info("DefaultClass", claim=claim.key, storage_class=default.name)

    async def _wait(self, claim: PersistentVolumeClaim, decision: ClaimDecision) -> None:
        """Says what the claim waits for. A status that speaks of a volume is wrong, and is mended."""
        status = claim.status
        if (status.phase, status.access_modes, status.capacity) != ("Pending", (), {}):
            claim = await self._patch_claim(
                claim, {"status": {**WITHOUT_VOLUME, "phase": "Pending"}}, "status"
            )
        self.recorder.once(claim, "Normal" if decision.normal else "Warning", decision.reason)

    async def _bind_alone(self, claim: PersistentVolumeClaim, pv: PersistentVolume) -> None:
        """Meanwhile no other claim is given the volume; if it stays free, those that wait are told."""
        self._chosen.add(pv.name)
        try:
            await self._bind(claim, pv)
        finally:
            self._chosen.discard(pv.name)
            self.queue.add(VolumeKey(pv.name))
            known = self._volumes.get(pv.name)
            if known is not None and is_free(known):
                for key in self._waiting_for_class(known.spec.storage_class_name):
                    self._look_soon(key)

    def _look_soon(self, key: ClaimKey) -> None:
        """Marks a claim, unless its last try has failed: that backoff stays, or a claim and its volume, or
        two claims, would wake each other for as long as the API server does not answer."""
        if not self.queue.is_delayed(key):
            self.queue.add(key)

    def _bring_up(self, key: ClaimKey) -> None:
        """Marks the claim of a volume, unless it is being tried, or will be. What changes either of them
        marks both: each change would be tried twice at once, also where the API server refuses that."""
        if key not in self.queue:
            self.queue.add(key)

    async def _bind(self, claim: PersistentVolumeClaim, pv: PersistentVolume) -> None:
        """The four writes, or those that are missing. They mark no keys: after a failure the claim's comes
        back, and the volume is looked at once at the end, because the claim may have gone meanwhile."""
        reference = pv.spec.claim_ref
        if reference is None or reference.uid != claim.uid:
            annotations = {BOUND_BY_CONTROLLER: "yes"} if reference is None else {}
            patch = {"metadata": {"annotations": annotations}, "spec": {"claimRef": claim_reference(claim)}}
            pv = await self._patch_volume(pv, patch, tell=False)
        pv = await self._set_phase(pv, "Bound", tell=False)
        if BIND_COMPLETED not in claim.metadata.annotations or claim.spec.volume_name != pv.name:
            annotations = {BIND_COMPLETED: "yes"}
            if not claim.spec.volume_name:
                annotations[BOUND_BY_CONTROLLER] = "yes"
            patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": pv.name}}
            claim = await self._patch_claim(claim, patch, tell=False)
        if claim.status.phase != "Bound":
            claim = await self._patch_claim(claim, {"status": _bound_status(pv)}, "status", tell=False)
            self.log.info("Bound", claim=claim.key, volume=pv.name)
        resizer = resizer_of(claim, pv)
        if resizer is not None and claim.metadata.annotations.get(RESIZER) != resizer:
            await self._patch_claim(claim, {"metadata": {"annotations": {RESIZER: resizer}}})

    async def _ask_provisioner(self, claim: PersistentVolumeClaim, provisioner: str) -> None:
        if claim.metadata.annotations.get(STORAGE_PROVISIONER) != provisioner:
            annotations = {STORAGE_PROVISIONER: provisioner, BETA_STORAGE_PROVISIONER: provisioner}
            await self._patch_claim(claim, {"metadata": {"annotations": annotations}})

    async def _reconcile_ending_claim(self, claim: PersistentVolumeClaim) -> None:
        """Lets a claim go that no pod uses. Until then it has its volume, as any other: so it is bound to it
        anew if a user has made the volume again."""
        if CLAIM_PROTECTION not in claim.metadata.finalizers:
            return
        if not await self._in_use(claim):
            rest = [each for each in claim.metadata.finalizers if each != CLAIM_PROTECTION]
            await self._patch_claim(claim, {"metadata": {"finalizers": rest}})
        elif BIND_COMPLETED in claim.metadata.annotations:
            await self._reconcile_claim(claim)

    async def _in_use(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a pod uses the claim; one without a node does not use it yet. The cache may be stale, and a
        finalizer that is removed does not come back, so it is not the last to be asked."""
        if self._used(claim, self._pods.by_index("claim", claim.key)):
            return True
        return self._used(claim, (await self.client.list(Pod, claim.namespace)).items)

    def _used(self, claim: PersistentVolumeClaim, pods: Iterable[Pod]) -> bool:
        return any(pod.spec.node_name and claim.key in claim_keys_in_use(pod) for pod in pods)

    # --- volumes

    async def _reconcile_volume(self, pv: PersistentVolume) -> None:
        claim = await self._claim_of(pv)
        decision = decide_volume(pv, claim)
        match decision.action:
            case VolumeAction.PHASE:
                pv = await self._set_phase(pv, decision.phase)
            case VolumeAction.CLAIM:
                assert claim is not None
                self._bring_up(ClaimKey(claim.key))
            case VolumeAction.MISMATCH:
                assert claim is not None
                self.recorder.once(pv, "Warning", decision.reason)
                self.recorder.once(claim, "Warning", decision.reason)
            case VolumeAction.UNBIND:
                pv = await self._set_phase(await self._patch_volume(pv, unbound(pv)), "Available")
                self.log.info("Unbound", volume=pv.name, reason=decision.reason.message)
            case _:
                assert_never(decision.action)
        if pv.deleting and VOLUME_PROTECTION in pv.metadata.finalizers and pv.status.phase != "Bound":
            if owners := self._to_be_bound_anew(pv):
                for claim in owners:
                    self._bring_up(ClaimKey(claim.key))
                return
            rest = [each for each in pv.metadata.finalizers if each != VOLUME_PROTECTION]
            await self._patch_volume(pv, {"metadata": {"finalizers": rest}})

    def _to_be_bound_anew(self, pv: PersistentVolume) -> list[PersistentVolumeClaim]:
        """The claims that were bound to the volume before a user made it again: it is still theirs."""
        return [
            claim
            for claim in self._claims.by_index("volume", pv.name)
            if BIND_COMPLETED in claim.metadata.annotations and why_lost(claim, pv) is None
        ]

    async def _set_phase(self, pv: PersistentVolume, phase: str, *, tell: bool = True) -> PersistentVolume:
        if pv.status.phase == phase:
            return pv
        self.log.info(phase, volume=pv.name)
        patch = {"status": {"phase": phase, "message": None}}
        return await self._patch_volume(pv, patch, "status", tell=tell)

    async def _claim_of(self, pv: PersistentVolume) -> PersistentVolumeClaim | None:
        """Returns the very claim that the volume is bound to, or None. That it is gone is believed only after
        a live read, because the result leads to the deletion of data."""
        reference = pv.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self._claims.get(f"{reference.namespace}/{reference.name}")
        if claim is None or claim.uid != reference.uid:
            claim = await self.client.find(PersistentVolumeClaim, reference.name, reference.namespace)
        return claim if claim is not None and claim.uid == reference.uid else None

    # --- writes

    async def _patch_claim(
        self,
        claim: PersistentVolumeClaim,
        patch: dict[str, Any],
        subresource: str | None = None,
        *,
        tell: bool = True,
    ) -> PersistentVolumeClaim:
        """Without `tell`, the write marks no keys."""
        answer = await self.client.revise(claim, patch, subresource=subresource)
        self._claims.accept(answer, tell=tell)
        return answer

    async def _patch_volume(
        self,
        pv: PersistentVolume,
        patch: dict[str, Any],
        subresource: str | None = None,
        *,
        tell: bool = True,
    ) -> PersistentVolume:
        """The same for a volume."""
        answer = await self.client.revise(pv, patch, subresource=subresource)
        self._volumes.accept(answer, tell=tell)
        if not tell:
            self._free.update(pv, self._volumes.get(pv.name))
        return answer


def _bound_status(pv: PersistentVolume) -> dict[str, Any]:
    """The status of a claim that gets this volume. While the file system is smaller than the volume (it was
    to grow when its former claim went), the claim has the capacity from before."""
    before = pv.metadata.annotations.get(PRE_RESIZE_CAPACITY)
    return {
        "phase": "Bound",
        "accessModes": list(pv.spec.access_modes),
        "capacity": {**pv.spec.capacity, **({"storage": before} if before else {})},
        "currentVolumeAttributesClassName": pv.spec.volume_attributes_class_name,
    }


def _volume_of(claim: PersistentVolumeClaim) -> list[str]:
    return [claim.spec.volume_name] if claim.spec.volume_name else []


def _class_waited_for(claim: PersistentVolumeClaim) -> list[str]:
    bound = BIND_COMPLETED in claim.metadata.annotations
    return [] if bound else [claim.storage_class]


def _claimed_by(pv: PersistentVolume) -> list[str]:
    reference = pv.spec.claim_ref
    return [f"{reference.namespace}/{reference.name}"] if reference is not None else []
