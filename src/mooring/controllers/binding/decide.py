"""What to do about a claim, and about a volume. Pure.

Rules: upstream's binder (kube-controller-manager, `persistentvolume/pv_controller.go`). Binding is four
writes in this order: the volume names the claim; the volume's phase; the claim names the volume; the claim's
phase. Deciding again completes any prefix of them, so a crash between two of them does no harm.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.kube.quantity import parse_bytes
from mooring.kube.reason import Reason
from mooring.volumes.default_class import names_no_class
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    PROVISIONED_BY,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    mismatch,
    requested,
    reserved_for,
)
from mooring.volumes.migration import driver_of, migrated


class Action(Enum):
    """What to do about a claim."""

    BIND = "Bind"  # to the volume of the decision; completes the writes that are missing
    PROVISION = "Provision"  # ask the class's provisioner
    ASSIGN_CLASS = "AssignClass"  # the default class that there is by now
    WAIT = "Wait"
    LOST = "Lost"


class ClaimDecision(Decision[Action], frozen=True, gc=False):
    """What to do about a claim. `volume`: the one that BIND binds it to. `normal`: there is nothing wrong in
    waiting."""

    volume: PersistentVolume | None = None
    normal: bool = False


def resizer_of(claim: PersistentVolumeClaim, pv: PersistentVolume) -> str | None:
    """Returns the CSI driver whose resizer is to grow the claim's former in-tree volume, and which knows that
    by an annotation alone; None if the volume is large enough, or of another kind."""
    if requested(claim) <= parse_bytes(claim.status.capacity.get("storage", 0)):
        return None
    found = migrated(pv.spec, pv.metadata.labels)
    return None if found is None else found.driver


def decide_claim(
    claim: PersistentVolumeClaim,
    named: PersistentVolume | None,
    free: FreeVolumes,
    storage_class: StorageClass | None,
    default: StorageClass | None = None,
    taken: Container[str] = (),
) -> ClaimDecision:
    """Returns what to do about a claim. `named` is the volume of `spec.volumeName`, if it exists; `default`
    the class of claims that name none; `taken` has the names of volumes that are being given to others."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _bound(claim, named)
    if claim.spec.volume_name:
        return _names_a_volume(claim, named)
    delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    # With delayed binding the scheduler chooses: only a volume that it has reserved is bound.
    found = free.reserved(claim) if delayed else free.find(claim, taken=taken)
    if found is not None:
        return ClaimDecision(Action.BIND, Reason("Matched", f"volume {found.name} fits"), found)
    if default is not None and names_no_class(claim):
        reason = Reason("DefaultClass", f"it names no class, and {default.name} is the default one")
        return ClaimDecision(Action.ASSIGN_CLASS, reason)
    return _nothing_fits(claim, storage_class, delayed)


def why_lost(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> Reason | None:
    """Returns why a claim that was bound has no volume any more; None if it has `named`."""
    if not claim.spec.volume_name:
        return Reason("ClaimLost", "bound claim has lost reference to its volume")
    if named is None:
        return Reason("ClaimLost", f"bound claim has lost its volume {claim.spec.volume_name}")
    reference = named.spec.claim_ref
    if reference is not None and not reserved_for(named, claim):
        message = f"volume {named.name} is bound to {reference.namespace}/{reference.name}"
        return Reason("ClaimMisbound", message)
    return None


def _bound(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> ClaimDecision:
    if (reason := why_lost(claim, named)) is not None:
        return ClaimDecision(Action.LOST, reason)
    assert named is not None
    return ClaimDecision(Action.BIND, Reason("Bound", f"bound to volume {named.name}"), named)


def _names_a_volume(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> ClaimDecision:
    if named is None:
        reason = Reason(
            "FailedBinding", f"volume {claim.spec.volume_name} that the claim names does not exist"
        )
        return ClaimDecision(Action.WAIT, reason)
    reference = named.spec.claim_ref
    if reference is not None and not reserved_for(named, claim):
        message = (
            f"volume {named.name} already bound to a different claim, {reference.namespace}/{reference.name}"
        )
        return ClaimDecision(Action.WAIT, Reason("FailedBinding", message))
    problem = mismatch(named, claim, reserved=reference is not None)
    if problem is not None:
        return ClaimDecision(
            Action.WAIT, Reason("VolumeMismatch", f"cannot bind to the volume it names: {problem}")
        )
    return ClaimDecision(Action.BIND, Reason("Named", f"names volume {named.name}"), named)


def _nothing_fits(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None, delayed: bool
) -> ClaimDecision:
    wanted = claim.spec.storage_class_name
    if not wanted:
        message = "no persistent volumes available for this claim and no storage class is set"
        return ClaimDecision(Action.WAIT, Reason("FailedBinding", message), normal=True)
    if storage_class is None:
        message = f'storageclass.storage.k8s.io "{wanted}" not found: create it, or name another class'
        return ClaimDecision(Action.WAIT, Reason("ProvisioningFailed", message))
    if delayed and SELECTED_NODE not in claim.metadata.annotations:
        message = "waiting for first consumer to be created before binding"
        return ClaimDecision(Action.WAIT, Reason("WaitForFirstConsumer", message), normal=True)
    if storage_class.provisioner == NO_PROVISIONER:
        message = f"no persistent volume fits, and class {wanted} does not provision any"
        return ClaimDecision(Action.WAIT, Reason("FailedBinding", message), normal=True)
    message = f"waiting for a volume to be created by {driver_of(storage_class.provisioner)}"
    return ClaimDecision(Action.PROVISION, Reason("ExternalProvisioning", message))


class VolumeAction(Enum):
    """What to do about a volume."""

    PHASE = "Phase"  # it is to have the phase of the decision
    CLAIM = "Claim"  # decide about its claim, which has not named a volume yet
    MISMATCH = "Mismatch"  # tell both: its claim needs another volumeMode
    UNBIND = "Unbind"  # its claim has another volume: offer it again


class VolumeDecision(Decision[VolumeAction], frozen=True, gc=False):
    """What to do about a volume. `phase`: the one that PHASE sets."""

    phase: str = ""


def decide_volume(pv: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeDecision:
    """Returns what to do about a volume. `claim` is the one of its claimRef (None: gone, or of another uid).

    A volume whose claim has another one was never that claim's: a claim names one volume, once. If it was
    made for the claim, it is released, and its policy tells what becomes of it; if it was there before, it is
    offered again.
    """
    reference = pv.spec.claim_ref
    if reference is None or not reference.uid:
        return _phase("Available", "Unclaimed", "no claim has it")
    if claim is None:
        return _phase(_released(pv), "ClaimGone", f"claim {reference.namespace}/{reference.name} is gone")
    if not claim.spec.volume_name:
        if claim.spec.volume_mode != pv.spec.volume_mode:
            message = f"volume {pv.name} has volumeMode {pv.spec.volume_mode}, claim {claim.key} asks for "
            reason = Reason("VolumeMismatch", message + claim.spec.volume_mode)
            return VolumeDecision(VolumeAction.MISMATCH, reason)
        return VolumeDecision(VolumeAction.CLAIM, Reason("Binding", f"claim {claim.key} names no volume yet"))
    if claim.spec.volume_name == pv.name:
        return _phase("Bound", "Bound", f"claim {claim.key} has it")
    elsewhere = f"claim {claim.key} has volume {claim.spec.volume_name}"
    if is_made_for_claim(pv):
        return _phase(_released(pv), "ClaimBoundElsewhere", elsewhere)
    return VolumeDecision(VolumeAction.UNBIND, Reason("ClaimBoundElsewhere", elsewhere))


def is_made_for_claim(pv: PersistentVolume) -> bool:
    """Whether a provisioner made the volume for the claim of its claimRef, and it is to go with it. One that
    the binder chose for a claim was free before: upstream deletes that, too, and with it what was kept
    there."""
    annotations = pv.metadata.annotations
    deleted = pv.spec.persistent_volume_reclaim_policy == "Delete"
    return deleted and PROVISIONED_BY in annotations and BOUND_BY_CONTROLLER not in annotations


def _phase(phase: str, code: str, message: str) -> VolumeDecision:
    return VolumeDecision(VolumeAction.PHASE, Reason(code, message), phase)


def _released(pv: PersistentVolume) -> str:
    return "Failed" if pv.status.phase == "Failed" else "Released"
