"""What is to become of a claim, and of a volume. Pure; rules of upstream's binder (reference section 4.1).

Binding is four writes in this order: the volume names the claim; the volume's phase; the claim names the volume; the
claim's phase. Any prefix of them is completed by deciding again, so a crash between two of them harms nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

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


class Claim(Enum):
    """What is to be done about a claim."""

    BIND = "Bind"  # to the volume of the decision, completing what is missing
    PROVISION = "Provision"  # ask the class's provisioner
    WAIT = "Wait"
    LOST = "Lost"


class ClaimDecision(NamedTuple):
    action: Claim
    reason: Reason
    volume: PersistentVolume | None = None


def decide_claim(
    claim: PersistentVolumeClaim,
    named: PersistentVolume | None,
    free: FreeVolumes,
    storage_class: StorageClass | None,
) -> ClaimDecision:
    """`named` is the volume of `spec.volumeName`, if there is one."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _bound(claim, named)
    if claim.spec.volume_name:
        return _names_a_volume(claim, named)
    delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    # With delayed binding the scheduler chooses; here only what it has reserved is taken.
    found = free.reserved(claim) if delayed else free.find(claim)
    if found is not None:
        return ClaimDecision(Claim.BIND, Reason("Matched", f"volume {found.name} fits"), found)
    return _nothing_fits(claim, storage_class, delayed)


def _bound(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> ClaimDecision:
    if not claim.spec.volume_name:
        return ClaimDecision(Claim.LOST, Reason("ClaimLost", "bound claim has lost reference to its volume"))
    if named is None:
        reason = Reason("ClaimLost", f"bound claim has lost its volume {claim.spec.volume_name}")
        return ClaimDecision(Claim.LOST, reason)
    reference = named.spec.claim_ref
    if reference is not None and not reserved_for(named, claim):
        reason = Reason("ClaimMisbound", f"volume {named.name} is bound to {reference.namespace}/{reference.name}")
        return ClaimDecision(Claim.LOST, reason)
    return ClaimDecision(Claim.BIND, Reason("Bound", f"bound to volume {named.name}"), named)


def _names_a_volume(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> ClaimDecision:
    if named is None:
        reason = Reason("FailedBinding", f"volume {claim.spec.volume_name} that the claim names does not exist")
        return ClaimDecision(Claim.WAIT, reason)
    reference = named.spec.claim_ref
    if reference is not None and not reserved_for(named, claim):
        message = f"volume {named.name} already bound to a different claim, {reference.namespace}/{reference.name}"
        return ClaimDecision(Claim.WAIT, Reason("FailedBinding", message))
    problem = mismatch(named, claim)
    if problem is not None:
        return ClaimDecision(Claim.WAIT, Reason("VolumeMismatch", f"cannot bind to the volume it names: {problem}"))
    return ClaimDecision(Claim.BIND, Reason("Named", f"names volume {named.name}"), named)


def _nothing_fits(claim: PersistentVolumeClaim, storage_class: StorageClass | None, delayed: bool) -> ClaimDecision:
    wanted = claim.spec.storage_class_name
    if not wanted:
        message = "no persistent volumes available for this claim and no storage class is set"
        return ClaimDecision(Claim.WAIT, Reason("FailedBinding", message))
    if storage_class is None:
        message = f'storageclass.storage.k8s.io "{wanted}" not found: create it, or name another class'
        return ClaimDecision(Claim.WAIT, Reason("ProvisioningFailed", message))
    if delayed and SELECTED_NODE not in claim.metadata.annotations:
        message = "waiting for first consumer to be created before binding"
        return ClaimDecision(Claim.WAIT, Reason("WaitForFirstConsumer", message))
    if storage_class.provisioner == NO_PROVISIONER:
        message = f"no persistent volume fits, and class {wanted} does not provision any"
        return ClaimDecision(Claim.WAIT, Reason("FailedBinding", message))
    message = f"waiting for a volume to be created by {storage_class.provisioner}"
    return ClaimDecision(Claim.PROVISION, Reason("ExternalProvisioning", message))


def decide_phase(pv: PersistentVolume, claim: PersistentVolumeClaim | None, bound_elsewhere: bool) -> str:
    """The phase of a volume. `claim` is the one of its claimRef (None: gone, or of another uid); `bound_elsewhere`
    says that it has meanwhile bound to another volume."""
    reference = pv.spec.claim_ref
    if reference is None or not reference.uid:
        return "Available"
    if claim is None or bound_elsewhere:
        return pv.status.phase if pv.status.phase == "Failed" else "Released"
    return "Bound"
