"""What the binder and the provisioner would do about a claim or a volume now, though that is not in their
queue: a change that should have marked it did not (D2). Of StatefulSets: `sets_left`.

Judged where all caches of the controller are as new as the store. So what a live read would show, they show:
nothing is left only because it is to be told yet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, cast

from mooring.controllers.binding.controller import BindingController
from mooring.controllers.binding.decide import Action, VolumeAction, decide_claim, decide_volume
from mooring.controllers.provisioning import decide as provisioning
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.controller import Controller
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.simulation.checks.second_opinions.bindings import BOUND, grower
from mooring.simulation.checks.second_opinions.provisionings import ASKED, driver, finalizer, maker_of
from mooring.simulation.checks.second_opinions.sets_left import missed_of_sets
from mooring.volumes.claims import claim_keys_in_use
from mooring.volumes.default_class import default_class

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
RESIZER = "volume.kubernetes.io/storage-resizer"


def work_left(controller: Controller[Any]) -> Iterator[str]:
    """What is to be done, and not in the queue."""
    if isinstance(controller, StatefulSetController):
        yield from missed_of_sets(controller)
        return
    of_claim, of_volume = _OF[type(controller)]
    asked: Any = controller
    for claim in asked._claims.items():
        if ClaimKey(claim.key) not in controller.queue and (what := of_claim(asked, claim)):
            yield f"{what} claim {claim.key} was missed"
    for pv in asked._volumes.items():
        if VolumeKey(pv.name) not in controller.queue and (what := of_volume(asked, pv)):
            yield f"{what} volume {pv.name} was missed"


def left_of(controller: Controller[Any], key: Hashable) -> str:
    """What is to be done about one claim or volume."""
    of_claim, of_volume = _OF[type(controller)]
    asked: Any = controller
    if isinstance(key, ClaimKey):
        claim = asked._claims.get(key.name)
        return of_claim(asked, claim) if claim is not None else ""
    pv = asked._volumes.get(cast("VolumeKey", key).name)
    return of_volume(asked, pv) if pv is not None else ""


def may_leave_work(controller: Controller[Any]) -> bool:
    """Whether it is one of those that are judged."""
    return type(controller) in _OF or isinstance(controller, StatefulSetController)


def is_current(controller: Controller[Any], last: Mapping[str, int]) -> bool:
    """Whether its caches have all that is stored. `last`: of each kind the version of its last change."""
    return all(cache.version >= last.get(_stored(cache.kind.RESOURCE), 0) for cache in controller.caches)


def _stored(resource: Any) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


# --- the binder


def _binding_of_claim(asked: Any, claim: PersistentVolumeClaim) -> str:
    if claim.deleting:
        return _end_of_claim(asked, claim)
    if CLAIM_PROTECTION not in claim.metadata.finalizers:
        return "protecting"
    return _binding(asked, claim)


def _end_of_claim(asked: Any, claim: PersistentVolumeClaim) -> str:
    if CLAIM_PROTECTION not in claim.metadata.finalizers:
        return ""
    if any(pod.spec.node_name and claim.key in claim_keys_in_use(pod) for pod in asked._pods.items()):
        return _binding(asked, claim) if BOUND in claim.metadata.annotations else ""
    return "letting go of"


def _binding(asked: Any, claim: PersistentVolumeClaim) -> str:
    """What is to be written of a claim that stays: its state is not yet as it was decided."""
    storage_class = asked._classes.get(claim.spec.storage_class_name or "")
    named, default = asked._volumes.get(claim.spec.volume_name), default_class(asked._classes.items())
    decision = decide_claim(claim, named, asked._free, storage_class, default, asked._chosen)
    status, annotations = claim.status, claim.metadata.annotations
    match decision.action:
        case Action.BIND:
            assert decision.volume is not None
            is_done = _are_bound(claim, decision.volume)
        case Action.PROVISION:
            assert storage_class is not None
            is_done = annotations.get(ASKED) == driver(storage_class.provisioner)
        case Action.ASSIGN_CLASS:
            is_done = False
        case Action.WAIT:
            is_done = status.phase in ("", "Pending") and not (status.access_modes or status.capacity)
        case Action.LOST:
            is_done = status.phase == "Lost"
    return "" if is_done else decision.action.value


def _are_bound(claim: PersistentVolumeClaim, pv: PersistentVolume) -> bool:
    named, resizer = pv.spec.claim_ref, grower(claim, pv)
    return (
        (named is not None and named.uid == claim.uid and pv.status.phase == "Bound")
        and (BOUND in claim.metadata.annotations and claim.spec.volume_name == pv.name)
        and claim.status.phase == "Bound"
        and (resizer is None or claim.metadata.annotations.get(RESIZER) == resizer)
    )


def _binding_of_volume(asked: Any, pv: PersistentVolume) -> str:
    """One that is being bound is looked at when that has ended."""
    if pv.name in asked._chosen:
        return ""
    if not pv.deleting and VOLUME_PROTECTION not in pv.metadata.finalizers:
        return "protecting"
    decision = decide_volume(pv, _claim_of(asked, pv))
    phase = decision.phase if decision.action is VolumeAction.PHASE else pv.status.phase
    if decision.action is VolumeAction.UNBIND or phase != pv.status.phase:
        return decision.action.value
    kept = any(
        claim.spec.volume_name == pv.name and BOUND in claim.metadata.annotations
        for claim in asked._claims.items()
    )
    is_free = pv.deleting and pv.status.phase != "Bound" and not kept
    return "letting go of" if is_free and VOLUME_PROTECTION in pv.metadata.finalizers else ""


def _claim_of(asked: Any, pv: PersistentVolume) -> PersistentVolumeClaim | None:
    named = pv.spec.claim_ref
    claim = asked._claims.get(f"{named.namespace}/{named.name}") if named is not None else None
    return claim if claim is not None and named is not None and claim.uid == named.uid else None


# --- the provisioner


def _provisioning_of_claim(asked: Any, claim: PersistentVolumeClaim) -> str:
    """What has begun is tried until it is done: its key comes back after each error."""
    storage_class = asked._classes.get(claim.spec.storage_class_name or "") or asked._begun_by.get(claim.uid)
    made = asked._volumes.get(f"pvc-{claim.uid}") is not None
    action = provisioning.decide_claim(claim, storage_class, asked._ours, made=made).action
    is_work = action in (provisioning.ClaimAction.PROVISION, provisioning.ClaimAction.FINISH)
    return action.value if is_work else ""


def _provisioning_of_volume(asked: Any, pv: PersistentVolume) -> str:
    """A volume that is attached is looked at again when it is detached. One whose disk is gone may be kept by
    another party."""
    action = provisioning.decide_volume(pv, asked._ours, deletable=asked._deletable(pv)).action
    is_gone = pv.deleting and pv.uid in asked._reclaimer._deleted
    if action is provisioning.VolumeAction.KEEP or (
        is_gone and finalizer(maker_of(pv)) not in pv.metadata.finalizers
    ):
        return ""
    attached = any(
        each.spec.source.persistent_volume_name == pv.name for each in asked._reclaimer._attachments.items()
    )
    return "" if attached or _has_claim(asked, pv) else action.value


def _has_claim(asked: Any, pv: PersistentVolume) -> bool:
    """Whether its claim is there, and has no other volume; or nothing says which its claim is."""
    named = pv.spec.claim_ref
    if named is None or not named.uid:
        return True
    claim = _claim_of(asked, pv)
    return claim is not None and claim.spec.volume_name in ("", pv.name)


_OF: Mapping[type[Any], tuple[Callable[[Any, Any], str], Callable[[Any, Any], str]]] = {
    BindingController: (_binding_of_claim, _binding_of_volume),
    ProvisioningController: (_provisioning_of_claim, _provisioning_of_volume),
}
