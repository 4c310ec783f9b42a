"""Which claims a volume is made for, what is written of it, and which volumes are reclaimed. Pure.

A class of a former in-tree provisioner is its CSI driver's, and so are the volumes that it has made.

The hand-over is upstream's: the binder writes the provisioner's name on a claim, and the provisioner of that
name acts. Two finalizers keep disks from being forgotten: BEGUN on the claim from before the storage is asked
until the PersistentVolume exists (kubernetes-csi/external-provisioner#486); MADE on the PersistentVolume
until the disk is deleted (KEP-2644).
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum
from typing import Any, cast

import msgspec

from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.kube.reason import Reason
from mooring.volumes.matching import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    claim_reference,
)
from mooring.volumes.migration import driver_of
from mooring.volumes.reclaim import MADE, MADE_BY_DRIVER, WITHOUT_CLAIM

BEGUN = "mooring.dev/provisioning"
"""Finalizer of a claim for which the storage was asked to make a volume, or is about to be."""


def wants_volume(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None, provisioners: Container[str]
) -> bool:
    """Whether the claim is unbound, names no volume, and its class's provisioner is one of
    ours and has been asked."""
    annotations = claim.metadata.annotations
    if claim.deleting or BIND_COMPLETED in annotations or claim.spec.volume_name or storage_class is None:
        return False
    driver = driver_of(storage_class.provisioner)
    if annotations.get(STORAGE_PROVISIONER) != driver:
        return False
    delayed = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return driver in provisioners and (not delayed or SELECTED_NODE in annotations)


class ClaimAction(Enum):
    """What to do about a claim."""

    SETTLED = "Settled"
    PROVISION = "Provision"  # store BEGUN, ask the storage for a volume, create the PersistentVolume
    FINISH = "Finish"  # its PersistentVolume exists: remove BEGUN
    ASK = "Ask"  # for its class, which is gone


class VolumeAction(Enum):
    """What to do about a PersistentVolume."""

    KEEP = "Keep"
    DELETE = "Delete"  # from the storage, then from the API
    RECYCLE = "Recycle"  # remove its content, then take it from its claim
    FAIL = "Fail"  # say that no plugin deletes it
    RELEASE = "Release"  # remove the finalizer: the PersistentVolume goes, its disk stays


def decide_claim(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    provisioners: Container[str],
    *,
    made: bool,
) -> Decision[ClaimAction]:
    """What to do about a claim. `made`: the PersistentVolume that is named after it exists.

    Provisioning that has begun is brought to its end even if the claim is being deleted: only then is there a
    PersistentVolume by which the disk can be deleted.
    """
    begun = BEGUN in claim.metadata.finalizers
    current = driver_of(storage_class.provisioner) if storage_class is not None else ""
    asked = claim.metadata.annotations.get(STORAGE_PROVISIONER) or current
    if begun and not made and (storage_class is None or (asked in provisioners and asked != current)):
        what = "is gone" if storage_class is None else f"is of {current} now"
        message = (
            f"storage class {claim.spec.storage_class_name} {what}, and a volume may have been made by it: "
            f"create the class again{f', of {asked}' if asked else ''}"
        )
        return Decision(ClaimAction.ASK, Reason("ProvisioningFailed", message))
    begun_here = begun and asked in provisioners  # another process goes on with what is another's
    if made:
        action = ClaimAction.FINISH if begun else ClaimAction.SETTLED
        return Decision(action, Reason("VolumeExists", f"PersistentVolume {volume_name(claim)} exists"))
    if begun_here or wants_volume(claim, storage_class, provisioners):
        reason = Reason("Provisioning", f"a volume of {current} is wanted")
        return Decision(ClaimAction.PROVISION, reason)
    return Decision(
        ClaimAction.SETTLED, Reason("NotRequested", "no provisioner of this process is asked for a volume")
    )


def decide_volume(
    pv: PersistentVolume, provisioners: Container[str], *, deletable: bool | None = None
) -> Decision[VolumeAction]:
    """What to do about a PersistentVolume. `provisioners`: the names of the plugins and drivers of this
    process. `deletable`: whether one of them deletes volumes with its source; None: that is not for this
    process to say (the volume of a CSI driver, or this process serves one driver only).

    A volume that an administrator created, with policy Delete, is deleted by the plugin of its source, as
    upstream has it. Without such a plugin it fails, so that its creator learns of it.
    """
    policy, maker = pv.spec.persistent_volume_reclaim_policy, made_by(pv)
    made_here = maker in provisioners
    if pv.status.phase in WITHOUT_CLAIM:
        if policy == "Delete" and (made_here or (not maker and deletable)):
            return Decision(
                VolumeAction.DELETE, Reason("Released", "its claim is gone, and its reclaim policy is Delete")
            )
        if policy == "Delete" and not maker and deletable is False and pv.status.phase == "Released":
            message = "no volume plugin deletes such volumes: delete it by hand, or set its reclaim policy to Retain"
            return Decision(VolumeAction.FAIL, Reason("VolumeFailedDelete", message))
        if policy == "Recycle":
            return Decision(
                VolumeAction.RECYCLE, Reason("Released", "its claim is gone, and its policy is Recycle")
            )
    if pv.deleting and is_held(pv) and policy != "Delete" and made_here:
        return Decision(
            VolumeAction.RELEASE, Reason("Retained", f"it is being deleted, and its policy is {policy}")
        )
    return Decision(VolumeAction.KEEP, Reason("InUse", "it is not to be reclaimed"))


def finalizer_of(provisioner: str) -> str:
    """Returns the finalizer for a provisioner's volumes. Plugins have a slash in their
    names, CSI drivers have none. Volumes that none made are deleted by plugins, too."""
    return MADE if "/" in provisioner or not provisioner else MADE_BY_DRIVER


def made_by(pv: PersistentVolume) -> str:
    """Returns the plugin or driver that made the volume, or has taken the place of the plugin that did; "" if
    none did."""
    return driver_of(pv.metadata.annotations.get(PROVISIONED_BY, ""))


def is_held(pv: PersistentVolume) -> bool:
    """Whether the finalizer keeps the PersistentVolume until its disk is deleted."""
    return finalizer_of(made_by(pv)) in pv.metadata.finalizers


def volume_name(claim: PersistentVolumeClaim) -> str:
    """Returns the name of the volume made for a claim: the key that makes provisioning idempotent."""
    return f"pvc-{claim.uid}"


def body_of(made: PersistentVolume, claim: PersistentVolumeClaim) -> dict[str, Any]:
    """The PersistentVolume of what was made, which is the claim's. Where its disk is to be deleted with it,
    it is held until that is done."""
    body = cast("dict[str, Any]", msgspec.to_builtins(made))
    body["spec"]["claimRef"] = claim_reference(claim)
    if made.spec.persistent_volume_reclaim_policy == "Delete":
        held = body["metadata"].get("finalizers", ())
        body["metadata"]["finalizers"] = [*held, finalizer_of(made_by(made))]
    return body
