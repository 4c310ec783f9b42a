"""Which claims want a volume to be made, and which volumes are to be deleted. Pure.

The hand-over is upstream's: the binder writes the provisioner's name on a claim; whoever has that name acts.
"""

from __future__ import annotations

from collections.abc import Container

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.volumes.matching import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
)


def wants_volume(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None, provisioners: Container[str]
) -> bool:
    """The claim is unbound, names none, and its class's provisioner is one of ours and has been asked."""
    annotations = claim.metadata.annotations
    if claim.deleting or BIND_COMPLETED in annotations or claim.spec.volume_name or storage_class is None:
        return False
    if annotations.get(STORAGE_PROVISIONER) != storage_class.provisioner:
        return False
    delayed = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return storage_class.provisioner in provisioners and (not delayed or SELECTED_NODE in annotations)


def is_to_be_deleted(pv: PersistentVolume, provisioners: Container[str]) -> bool:
    """The volume is released, its policy is Delete, and one of our plugins made it."""
    return (
        pv.status.phase in ("Released", "Failed")
        and pv.spec.persistent_volume_reclaim_policy == "Delete"
        and pv.metadata.annotations.get(PROVISIONED_BY, "") in provisioners
    )


def is_to_be_recycled(pv: PersistentVolume) -> bool:
    """The volume is released and its policy is Recycle."""
    return pv.status.phase in ("Released", "Failed") and pv.spec.persistent_volume_reclaim_policy == "Recycle"


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The name of the volume made for a claim: the key that makes provisioning idempotent."""
    return f"pvc-{claim.uid}"
