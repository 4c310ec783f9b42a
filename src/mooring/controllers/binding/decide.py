"""What to do about a claim, and which phase a volume has. Pure.

Rules: upstream's binder (kube-controller-manager, `persistentvolume/pv_controller.go`). Binding is four
writes in this order: the volume names the claim; the volume's phase; the claim names the volume; the claim's
phase. Deciding again completes any prefix of them, so a crash between two of them does no harm.
"""

from __future__ import annotations

from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.kube.reason import Reason
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.matching import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    mismatch,
    reserved_for,
)


class Action(Enum):
    """What to do about a claim."""

    BIND = "Bind"  # to the volume of the decision; completes the writes that are missing
    PROVISION = "Provision"  # ask the class's provisioner
    WAIT = "Wait"
    LOST = "Lost"


class ClaimDecision(Decision[Action], frozen=True, gc=False):
    """What to do about a claim. `volume`: the one that BIND binds it to."""

    volume: PersistentVolume | None = None


def decide_claim(
    claim: PersistentVolumeClaim,
    named: PersistentVolume | None,
    free: FreeVolumes,
    storage_class: StorageClass | None,
) -> ClaimDecision:
    """Returns what to do about a claim. `named` is the volume of `spec.volumeName`, if it exists."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _bound(claim, named)
    if claim.spec.volume_name:
        return _names_a_volume(claim, named)
    delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    # With delayed binding the scheduler chooses: only a volume that it has reserved is bound.
    found = free.reserved(claim) if delayed else free.find(claim)
    if found is not None:
        return ClaimDecision(Action.BIND, Reason("Matched", f"volume {found.name} fits"), found)
    return _nothing_fits(claim, storage_class, delayed)


def _bound(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> ClaimDecision:
    if not claim.spec.volume_name:
        return ClaimDecision(Action.LOST, Reason("ClaimLost", "bound claim has lost reference to its volume"))
    if named is None:
        reason = Reason("ClaimLost", f"bound claim has lost its volume {claim.spec.volume_name}")
        return ClaimDecision(Action.LOST, reason)
    reference = named.spec.claim_ref
    if reference is not None and not reserved_for(named, claim):
        reason = Reason(
            "ClaimMisbound", f"volume {named.name} is bound to {reference.namespace}/{reference.name}"
        )
        return ClaimDecision(Action.LOST, reason)
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
    problem = mismatch(named, claim)
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
        return ClaimDecision(Action.WAIT, Reason("FailedBinding", message))
    if storage_class is None:
        message = f'storageclass.storage.k8s.io "{wanted}" not found: create it, or name another class'
        return ClaimDecision(Action.WAIT, Reason("ProvisioningFailed", message))
    if delayed and SELECTED_NODE not in claim.metadata.annotations:
        message = "waiting for first consumer to be created before binding"
        return ClaimDecision(Action.WAIT, Reason("WaitForFirstConsumer", message))
    if storage_class.provisioner == NO_PROVISIONER:
        message = f"no persistent volume fits, and class {wanted} does not provision any"
        return ClaimDecision(Action.WAIT, Reason("FailedBinding", message))
    message = f"waiting for a volume to be created by {storage_class.provisioner}"
    return ClaimDecision(Action.PROVISION, Reason("ExternalProvisioning", message))


def phase_of(pv: PersistentVolume, claim: PersistentVolumeClaim | None, bound_elsewhere: bool) -> str:
    """Returns the phase of a volume. `claim` is the one of its claimRef (None: gone, or of another uid);
    `bound_elsewhere`: the claim has bound to another volume meanwhile."""
    reference = pv.spec.claim_ref
    if reference is None or not reference.uid:
        return "Available"
    if claim is None or bound_elsewhere:
        return pv.status.phase if pv.status.phase == "Failed" else "Released"
    return "Bound"
