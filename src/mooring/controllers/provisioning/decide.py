"""Which claims want a volume to be made, and which volumes are to be deleted. Pure.

The hand-over is upstream's: the binder writes the provisioner's name on a claim; whoever has that name acts. Two
finalizers keep disks from being forgotten: BEGUN on the claim before the storage is asked, until the PersistentVolume
exists (kubernetes-csi/external-provisioner#486); MADE on the PersistentVolume until the disk is gone (KEP-2644).
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.volumes.matching import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
)

BEGUN = "mooring.dev/provisioning"
"""Finalizer of a claim for which the storage was, or is about to be, asked to make a volume."""
MADE = "mooring.dev/provisioned"
"""Finalizer of a PersistentVolume whose disk is to be deleted with it."""
MADE_BY_DRIVER = "external-provisioner.volume.kubernetes.io/finalizer"
"""The same where a CSI driver made it: upstream's name, so that either provisioner can take over from the other."""


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


class Claim(Enum):
    """What is to be done about a claim."""

    NOTHING = "Nothing"
    PROVISION = "Provision"
    DONE = "Done"  # its volume exists: nothing is begun any more


def decide_claim(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None, provisioners: Container[str], *, made: bool
) -> Claim:
    """What has begun is brought to its end whatever becomes of the claim: then its volume is one to be reclaimed."""
    begun = BEGUN in claim.metadata.finalizers
    if made:
        return Claim.DONE if begun else Claim.NOTHING
    if storage_class is not None and (begun or wants_volume(claim, storage_class, provisioners)):
        return Claim.PROVISION
    return Claim.NOTHING


def finalizer_of(provisioner: str) -> str:
    """Plugins have a slash in their names, CSI drivers have none."""
    return MADE if "/" in provisioner else MADE_BY_DRIVER


def made_by(pv: PersistentVolume) -> str:
    """The plugin or driver that made the volume; "" if nobody did."""
    return pv.metadata.annotations.get(PROVISIONED_BY, "")


def is_held(pv: PersistentVolume) -> bool:
    """The volume stays for the sake of its disk."""
    return finalizer_of(made_by(pv)) in pv.metadata.finalizers


def is_to_be_let_go(pv: PersistentVolume, provisioners: Container[str]) -> bool:
    """Somebody has deleted the volume, and its policy is not Delete any more: its disk stays."""
    kept = pv.spec.persistent_volume_reclaim_policy != "Delete"
    return pv.deleting and is_held(pv) and kept and made_by(pv) in provisioners


def is_to_be_deleted(pv: PersistentVolume, provisioners: Container[str]) -> bool:
    """The volume is released, its policy is Delete, and one of our plugins made it."""
    return (
        pv.status.phase in ("Released", "Failed")
        and pv.spec.persistent_volume_reclaim_policy == "Delete"
        and made_by(pv) in provisioners
    )


def is_to_be_recycled(pv: PersistentVolume) -> bool:
    """The volume is released and its policy is Recycle."""
    return pv.status.phase in ("Released", "Failed") and pv.spec.persistent_volume_reclaim_policy == "Recycle"


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The name of the volume made for a claim: the key that makes provisioning idempotent."""
    return f"pvc-{claim.uid}"
