"""Whether a PersistentVolume can serve a claim. Shared by the binder, the scheduler and `why`. Pure.

Which of several volumes a claim gets: `free_volumes`. Rules: upstream's binder (kube-controller-manager,
`pkg/controller/volume/persistentvolume`, and `findMatchingVolume` of component-helpers).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mooring.kube.objects import LabelSelector, PersistentVolume, PersistentVolumeClaim
from mooring.kube.quantity import parse_bytes
from mooring.volumes.reclaim import stays_for
from mooring.volumes.topology import requirement_holds

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
PRE_RESIZE_CAPACITY = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""Annotation of a volume that has grown: the size of its file system, until a node has grown that, too."""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


def requested(claim: PersistentVolumeClaim) -> int:
    """The bytes that the claim asks for."""
    return _bytes(claim.spec.resources.requests.get("storage", 0))


def capacity(pv: PersistentVolume) -> int:
    """The bytes that the volume has."""
    return _bytes(pv.spec.capacity.get("storage", 0))


_bytes = lru_cache(1024)(parse_bytes)
"""There are few sizes, and reading one is most of what finding a volume costs."""


def claim_reference(claim: PersistentVolumeClaim) -> dict[str, str]:
    """The `claimRef` that binds a volume to this very claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.metadata.resource_version,
    }


def reserved_for(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume's claimRef names this claim: by its uid, or (a reservation) without a uid."""
    reference = pv.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.namespace, claim.name)
        and reference.uid in ("", claim.uid)
    )


def mismatch(pv: PersistentVolume, claim: PersistentVolumeClaim, *, reserved: bool = False) -> str | None:
    """Returns why the volume cannot serve the claim, whichever names the other; None if it can. A volume that
    is `reserved` for the claim may be of another class, as upstream has it. One that was made for it, and was
    deleted before it was bound, stays as long as the claim does: nothing else could ever be made for it."""
    if pv.deleting and not stays_for(pv, claim):
        return f"volume {pv.name} is being deleted"
    if capacity(pv) < requested(claim):
        return f"volume {pv.name} has {capacity(pv)} bytes, {requested(claim)} are requested"
    if not reserved and pv.spec.storage_class_name != claim.storage_class:
        mine, theirs = claim.storage_class, pv.spec.storage_class_name
        return f"volume {pv.name} is of storage class {theirs!r}, the claim asks for {mine!r}"
    if pv.spec.volume_mode != claim.spec.volume_mode:
        return f"volume {pv.name} has volumeMode {pv.spec.volume_mode}, the claim asks for {claim.spec.volume_mode}"
    attributes = claim.spec.volume_attributes_class_name or ""
    if (pv.spec.volume_attributes_class_name or "") != attributes:
        theirs = pv.spec.volume_attributes_class_name or ""
        return f"volume {pv.name} has volumeAttributesClassName {theirs!r}, the claim asks for {attributes!r}"
    missing = sorted(set(claim.spec.access_modes) - set(pv.spec.access_modes))
    return f"volume {pv.name} lacks access mode {', '.join(missing)}" if missing else None


def unbound(pv: PersistentVolume) -> dict[str, Any]:
    """The patch that takes a volume from its claim: a volume that the binder chose is free then; one that its
    creator reserved for a claim by name stays reserved for the next claim of that name."""
    if BOUND_BY_CONTROLLER in pv.metadata.annotations:
        return {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}
    return {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}


def selected(pv: PersistentVolume, selector: LabelSelector | None) -> bool:
    """Whether the claim's selector, if it has one, matches the volume."""
    if selector is None:
        return True
    labels = pv.metadata.labels
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement_holds(each, labels) for each in selector.match_expressions
    )
