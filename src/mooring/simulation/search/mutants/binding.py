"""Mutants of binder, provisioner and scheduler: claims and volumes, disks and who may delete them."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec

from mooring.controllers.binding import controller as binding
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.provisioning import controller as provisioning
from mooring.controllers.provisioning.begun_claims import BegunClaims
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.reclaim import Reclaimer
from mooring.controllers.scheduling.controller import SchedulingController
from mooring.kube.errors import KubeError
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always
from mooring.volumes.matching import SELECTED_NODE

SLOWLY_S = 2.0
"""A bug that goes round in circles does so at this pace."""


def _any_version(original: Any) -> Any:
    async def patch_volume(
        self: Any, pv: PersistentVolume, patch: Any, subresource: str | None = None, *, tell: bool = True
    ) -> Any:
        answer = await self.client.revise(pv, patch, subresource=subresource, any_version=True)
        self._volumes.accept(answer)
        return answer

    return patch_volume


def _side_by_side(original: Any) -> Any:
    """Each worker as if it were another controller: it does not know what the others are about to bind."""

    def decide_claim(claim: Any, named: Any, free: Any, storage_class: Any, default: Any, taken: Any) -> Any:
        return original(claim, named, free, storage_class, default)

    return decide_claim


def _cache_only(original: Any) -> Any:
    async def in_use(self: Any, claim: PersistentVolumeClaim) -> bool:
        return self._used(claim, self._pods.by_index("claim", claim.key))

    return in_use


def _nowhere(original: Any) -> Any:
    async def attached_to(self: Any, pv: PersistentVolume) -> list[str]:
        return []

    return attached_to


def _only_if_claimed(original: Any) -> Any:
    async def create(self: Any, claim: PersistentVolumeClaim, made: PersistentVolume) -> None:
        live = await self.client.find(PersistentVolumeClaim, claim.name, claim.namespace)
        if live is not None and not live.deleting and live.uid == claim.uid:
            await original(self, claim, made)

    return create


def _not_noted(original: Any) -> Any:
    async def begin(self: Any, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return claim

    return begin


def _bare(original: Any) -> Any:
    """The PersistentVolume is made, and nothing keeps it."""

    async def create(self: Any, claim: PersistentVolumeClaim, made: PersistentVolume) -> None:
        policy = made.spec.persistent_volume_reclaim_policy
        retained = msgspec.structs.replace(made.spec, persistent_volume_reclaim_policy="Retain")
        await original(self, claim, msgspec.structs.replace(made, spec=retained))
        patch = {"spec": {"persistentVolumeReclaimPolicy": policy}}
        self._volumes.accept(await self.client.patch(PersistentVolume, made.name, patch))

    return create


def _another_name_each_time(original: Any) -> Any:
    chance = Random(0)

    def volume_name(claim: PersistentVolumeClaim) -> str:
        return f"{original(claim)}-{chance.getrandbits(24):06x}"

    return volume_name


def _of_that_name_in_the_cache(original: Any) -> Any:
    async def claim_of(self: Any, pv: PersistentVolume) -> PersistentVolumeClaim | None:
        reference = pv.spec.claim_ref
        if reference is None:
            return None
        cached = self._claims.get(f"{reference.namespace}/{reference.name}")
        return cached if cached is not None and cached.uid == reference.uid else None

    return claim_of


def _released_is_enough(original: Any) -> Any:
    async def claim_is_gone(self: Any, pv: PersistentVolume) -> bool:
        return True

    return claim_is_gone


def _unknown_means_not_there(original: Any) -> Any:
    async def make(self: Any, claim: PersistentVolumeClaim, *given: Any) -> Any:
        try:
            return await original(self, claim, *given)
        except (KubeError, *provisioning.CERTAIN):
            raise
        except Exception:
            if SELECTED_NODE in claim.metadata.annotations:
                await asyncio.sleep(SLOWLY_S)
                await self._choose_another_node(claim)
            raise

    return make


def _chosen_is_written(original: Any) -> Any:
    async def choose_for_claims(self: Any, volumes: Any, *choice: Any) -> None:
        assumed = vars(self).setdefault("_assumed", set[str]())
        new = [each for each in volumes if each.claim.uid not in assumed]
        assumed.update(each.claim.uid for each in new)
        await original(self, new, *choice)

    return choose_for_claims


MUTANTS: dict[str, Mutant] = {
    "B43": Mutant(
        "a claim's protection goes because a cache shows no pod that uses it",
        "kubernetes/kubernetes#75980, #76703",
        ("S15",),
        scenarios.LATE_PODS,
        (Patch(BindingController, "_in_use", _cache_only),),
    ),
    "B45": Mutant(
        "a volume is bound whatever another worker wrote to it since it was chosen",
        "kubernetes/kubernetes#16432, #24331",
        ("S12", "S15"),
        scenarios.BY_HAND,
        (
            Patch(BindingController, "_patch_volume", _any_version),
            Patch(binding, "decide_claim", _side_by_side),
        ),
    ),
    "B47": Mutant(
        "a volume counts as released if a cache has another claim of that name, and the provisioner believes it",
        "kubernetes/kubernetes#23078, #105131",
        ("S14",),
        scenarios.AGAIN,
        (
            Patch(BindingController, "_claim_of", _of_that_name_in_the_cache),
            Patch(Reclaimer, "_claim_is_gone", _released_is_enough),
        ),
    ),
    "B49": Mutant(
        "nothing keeps a claim for which a disk is being made",
        "kubernetes-csi/external-provisioner#131, #311, #486; in our own code until the simulation found it",
        ("S9",),
        scenarios.UNANSWERED,
        (Patch(BegunClaims, "begin", _not_noted),),
    ),
    "B50": Mutant(
        "what was made for a claim that is gone by now is left behind",
        "kubernetes-csi/external-provisioner#1469",
        ("S9",),
        scenarios.UNANSWERED,
        (
            Patch(ProvisioningController, "_create", _only_if_claimed),
            Patch(BegunClaims, "begin", _not_noted),
        ),
    ),
    "B52": Mutant(
        "a second try to make a volume makes another one",
        "kubernetes-csi/external-provisioner#296; aws-ebs-csi-driver#771 (B63)",
        ("S9",),
        scenarios.LOST_REQUESTS,
        (Patch(provisioning, "volume_name", _another_name_each_time),),
    ),
    "B53": Mutant(
        "a try to make a volume whose outcome is not known counts as one in vain: the next is for another node",
        "kubernetes-csi/external-provisioner#1466",
        ("S9",),
        scenarios.EBS_ZONES,
        (Patch(ProvisioningController, "_make", _unknown_means_not_there),),
    ),
    "B54": Mutant(
        "a volume that a user deletes goes before its disk",
        "kubernetes-csi/external-provisioner#546, KEP-2644; in our own code until the simulation found it",
        ("S9",),
        scenarios.CLAIMS,
        (Patch(ProvisioningController, "_create", _bare),),
    ),
    "B55": Mutant(
        "a disk is deleted while it is attached",
        "kubernetes/kubernetes#84226; kubernetes-csi/external-provisioner#438",
        ("S20",),
        scenarios.CLAIMS,
        (Patch(Reclaimer, "_attached_to", _nowhere), Patch(Reclaimer, "_known_nodes", always([]))),
    ),
    "B64": Mutant(
        "a node that was chosen for a claim counts as written there, also when that write has failed",
        "kubernetes/kubernetes#71928, #72013",
        ("L1", "L5"),
        scenarios.EBS_CHOOSING,
        (Patch(SchedulingController, "_choose_for_claims", _chosen_is_written),),
        omits="no volume is ever made for the claim: its pod waits for ever",
    ),
}
