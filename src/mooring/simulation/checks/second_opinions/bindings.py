"""What is decided about claims and volumes that are bound to each other.

https://kubernetes.io/docs/concepts/storage/persistent-volumes (binding, reserving, phases, selectors), and of
upstream's binder, which is documented by its tests: which of several volumes a claim gets.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from typing import Any

from mooring.controllers.binding import controller
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.binding.decide import Action, ClaimDecision, VolumeAction, VolumeDecision
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from mooring.kube.quantity import parse_bytes
from mooring.simulation.checks.second_opinions import near_claims
from mooring.simulation.checks.second_opinions.question import Question

BOUND = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BEFORE_GROWTH = "volume.alpha.kubernetes.io/pre-resize-capacity"
DISK_GOES_FIRST = {"mooring.dev/provisioned", "external-provisioner.volume.kubernetes.io/finalizer"}
"""Finalizers that stay until the volume's disk is deleted, which is after its claim."""
OWNERS_OF_SOURCES = {
    "aws_elastic_block_store": "ebs.csi.aws.com",
    "gce_persistent_disk": "pd.csi.storage.gke.io",
    "azure_disk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "vsphere_volume": "csi.vsphere.vmware.com",
    "portworx_volume": "pxd.portworx.com",
}
"""The CSI drivers that have taken the place of in-tree plugins."""

size = lru_cache(256)(parse_bytes)


def is_for(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names this claim: by its name, and (but for a reservation) by its uid."""
    named = pv.spec.claim_ref
    if named is None or named.namespace != claim.namespace or named.name != claim.name:
        return False
    return not named.uid or named.uid == claim.uid


def serves(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume has all that the claim asks for: no fewer bytes and access modes, and the very
    volume mode, attributes class and (where neither has chosen the other) class. It must stay, too."""
    asked, has = claim.spec, pv.spec
    if pv.deleting:
        of_claim = has.claim_ref is not None and has.claim_ref.uid == claim.uid
        if not of_claim or DISK_GOES_FIRST.isdisjoint(pv.metadata.finalizers):
            return False
    if has.claim_ref is None and (asked.storage_class_name or "") != has.storage_class_name:
        return False
    return (
        size(has.capacity.get("storage", 0)) >= size(asked.resources.requests.get("storage", 0))
        and has.volume_mode == asked.volume_mode
        and (has.volume_attributes_class_name or "") == (asked.volume_attributes_class_name or "")
        and all(mode in has.access_modes for mode in asked.access_modes)
    )


def is_selected(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume's labels are what the claim's selector asks for."""
    selector, labels = claim.spec.selector, pv.metadata.labels
    if selector is None:
        return True
    for each in selector.match_expressions:
        wanted = each.operator in ("In", "Exists")
        given = each.key in labels and (not each.values or labels[each.key] in each.values)
        if given != wanted:
            return False
    return selector.match_labels.items() <= labels.items()


def is_offered(pv: PersistentVolume) -> bool:
    """Whether it is free for any claim."""
    return pv.spec.claim_ref is None and pv.status.phase == "Available" and not pv.deleting


def gets(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], delayed: bool, taken: Container[str]
) -> str | None:
    """Which volume a claim gets that names none: one that is reserved for it, else (if the scheduler does not
    choose) of the free ones with the fewest access modes the smallest."""
    fitting = [pv for pv in volumes if serves(pv, claim)]
    reserved = min((pv.name for pv in fitting if is_for(pv, claim)), default=None)
    if delayed or (reserved is not None and reserved not in taken):
        return reserved
    free = (pv for pv in fitting if is_offered(pv) and is_selected(pv, claim) and pv.name not in taken)
    found = min(
        ((len(set(pv.spec.access_modes)), size(pv.spec.capacity["storage"]), pv.name) for pv in free),
        default=None,
    )
    return found[2] if found is not None else None


def of_claim(
    answer: ClaimDecision,
    claim: PersistentVolumeClaim,
    named: PersistentVolume | None,
    free: Any,
    storage_class: StorageClass | None,
    default: StorageClass | None = None,
    taken: Container[str] = (),
) -> Iterator[str]:
    """A claim that has been bound has its volume, or has lost it. One that names a volume gets that or none.
    Any other gets what fits, else its class is asked for a volume, if it may be asked yet."""
    expected, volume = Action.WAIT, None
    if BOUND in claim.metadata.annotations:
        volume = claim.spec.volume_name
        expected = Action.BIND if volume and may_have(claim, named) else Action.LOST
    elif claim.spec.volume_name:
        volume = claim.spec.volume_name
        if named is not None and serves(named, claim) and may_have(claim, named):
            expected = Action.BIND
    else:
        delayed = storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"
        volume = gets(claim, free._volumes.values(), delayed, taken)
        expected = Action.BIND if volume else _without_volume(claim, storage_class, default, delayed)
    given = answer.volume.name if answer.volume is not None else None
    if answer.action is not expected or (expected is Action.BIND and given != volume):
        yield f"claim {claim.key}: {answer.action.value} {given}, and not {expected.value} {volume}"
    if answer.action is Action.WAIT and answer.normal == _is_wrong(claim, storage_class):
        yield f"claim {claim.key} waits for {answer.reason.code}, which is told as {answer.normal=}"


def _without_volume(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    default: StorageClass | None,
    delayed: bool,
) -> Action:
    """The class "" is one that has no provisioner, and no default takes its place."""
    asked = claim.spec.storage_class_name
    if asked is None and BETA_CLASS not in claim.metadata.annotations and default is not None:
        return Action.ASSIGN_CLASS
    if not asked or storage_class is None or storage_class.provisioner == "kubernetes.io/no-provisioner":
        return Action.WAIT
    chosen = not delayed or SELECTED_NODE in claim.metadata.annotations
    return Action.PROVISION if chosen else Action.WAIT


def _is_wrong(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> bool:
    """Whether a user has to do something before the claim can be bound: it names a volume that it cannot
    have, or a class that is not there."""
    return bool(claim.spec.volume_name or (claim.spec.storage_class_name and storage_class is None))


def may_have(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> bool:
    """Whether the volume that the claim names is there, and is no other claim's."""
    return named is not None and (named.spec.claim_ref is None or is_for(named, claim))


def of_volume(
    answer: VolumeDecision, pv: PersistentVolume, claim: PersistentVolumeClaim | None
) -> Iterator[str]:
    """A volume that is of no claim's uid is Available. It is Bound while the claim of that uid names it, and
    Released (or Failed still) when that is gone. If the claim names another, what was made for it is
    Released, and what was there before is offered again."""
    named = pv.spec.claim_ref
    without = "Failed" if pv.status.phase == "Failed" else "Released"
    expected: tuple[VolumeAction, str]
    if named is None or not named.uid:
        expected = VolumeAction.PHASE, "Available"
    elif claim is None or claim.spec.volume_name == pv.name:
        expected = VolumeAction.PHASE, without if claim is None else "Bound"
    elif claim.spec.volume_name:
        made = PROVISIONED_BY in pv.metadata.annotations and BY_CONTROLLER not in pv.metadata.annotations
        goes = made and pv.spec.persistent_volume_reclaim_policy == "Delete"
        expected = (VolumeAction.PHASE, without) if goes else (VolumeAction.UNBIND, "")
    else:
        alike = claim.spec.volume_mode == pv.spec.volume_mode
        expected = VolumeAction.CLAIM if alike else VolumeAction.MISMATCH, ""
    if (answer.action, answer.phase) != expected:
        yield f"volume {pv.name}: {answer.action.value} {answer.phase}, and not {expected[0].value} {expected[1]}"
    if claim is not None and (named is None or named.uid != claim.uid):
        yield f"volume {pv.name} is judged by claim {claim.key}, which is not the one that it names"


def grower(claim: PersistentVolumeClaim, pv: PersistentVolume) -> str | None:
    has = claim.status.capacity.get("storage", 0)
    if size(claim.spec.resources.requests.get("storage", 0)) <= size(has):
        return None
    drivers = OWNERS_OF_SOURCES.items()
    return next((driver for name, driver in drivers if getattr(pv.spec, name) is not None), None)


def of_resizer(answer: str | None, claim: PersistentVolumeClaim, pv: PersistentVolume) -> Iterator[str]:
    """The driver that grows a former in-tree volume is named when the claim asks for more than it has."""
    if answer != (expected := grower(claim, pv)):
        yield f"claim {claim.key} of {pv.name} is grown by {answer}, and not by {expected}"


def is_default(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations
    return "true" in (
        annotations.get("storageclass.kubernetes.io/is-default-class"),
        annotations.get("storageclass.beta.kubernetes.io/is-default-class"),
    )


def of_default(answer: StorageClass | None, classes: list[StorageClass]) -> Iterator[str]:
    """Of several default classes the newest is the one."""
    others = [each for each in classes if is_default(each) and each is not answer]
    if answer is None:
        if others:
            yield f"{others[0].name} is a default class, and is not found"
        return
    if not is_default(answer):
        yield f"{answer.name} is no default class"
    born = answer.metadata.creation_timestamp or ""
    for each in others:
        newer = each.metadata.creation_timestamp or ""
        if newer > born or (newer == born and each.name < answer.name):
            yield f"{each.name} is a newer default class than {answer.name}"


def of_bound_status(answer: dict[str, Any], pv: PersistentVolume) -> Iterator[str]:
    """A bound claim shows what its volume has; of one that still grows, the size of its file system."""
    storage = pv.metadata.annotations.get(BEFORE_GROWTH) or pv.spec.capacity.get("storage")
    shown = (
        answer["phase"],
        (*answer["accessModes"],),
        answer["capacity"].get("storage"),
        answer["currentVolumeAttributesClassName"],
    )
    expected = ("Bound", (*pv.spec.access_modes,), storage, pv.spec.volume_attributes_class_name)
    if shown != expected:
        yield f"a claim of {pv.name} shows {shown}, and not {expected}"


def users_of(claim: PersistentVolumeClaim, pods: Iterable[Pod]) -> list[str]:
    """The pods for which a claim is protected: those on a node that name it. A pod that is only waiting to be
    removed (grace 0) does not keep its generic ephemeral volumes' claims: in a foreground deletion it waits
    for them."""
    users: list[str] = []
    for pod in pods:
        if pod.namespace != claim.namespace or not pod.spec.node_name:
            continue
        removed = pod.deleting and pod.metadata.deletion_grace_period_seconds == 0
        for each in pod.spec.volumes:
            source = each.persistent_volume_claim
            of_own = each.ephemeral is not None and f"{pod.name}-{each.name}" == claim.name
            if (source is not None and source.claim_name == claim.name) or (of_own and not removed):
                users.append(pod.name)
    return users


def of_use(answer: bool, asked: Any, claim: PersistentVolumeClaim, pods: Iterable[Pod]) -> Iterator[str]:
    users = users_of(claim, pods)
    if answer != bool(users):
        yield f"claim {claim.key} is used by {', '.join(users) or 'no pod'}, and counts as used: {answer}"


QUESTIONS = (
    Question(controller, "decide_claim", of_claim, near=near_claims.OF_CLAIM),
    Question(controller, "decide_volume", of_volume, near=near_claims.OF_VOLUME),
    Question(controller, "resizer_of", of_resizer, near=near_claims.OF_RESIZER),
    Question(controller, "default_class", of_default, near=near_claims.OF_DEFAULT),
    Question(controller, "_bound_status", of_bound_status, near=near_claims.OF_STATUS),
    Question(BindingController, "_used", of_use),
)
