"""Why a claim has no volume, or is not deleted."""

from __future__ import annotations

from typing import assert_never

from mooring.controllers.binding.decide import Action, decide_claim
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.kube.printable import counted
from mooring.kube.reason import Reason
from mooring.volumes.default_class import default_class
from mooring.volumes.errors import VolumeError
from mooring.volumes.growth import (
    CONTROLLER_RESIZE_ERROR,
    FILE_SYSTEM_RESIZE_PENDING,
    NODE_RESIZE_ERROR,
    RESIZING,
)
from mooring.volumes.matching import mismatch
from mooring.volumes.migration import driver_of
from mooring.why.cause import Cause, about, fine
from mooring.why.explain_volumes import explain_volume
from mooring.why.snapshot import Snapshot

MOST_CANDIDATES = 10
"""The number of volumes that are explained one by one; the rest is counted."""


def explain_claim(claim: PersistentVolumeClaim, known: Snapshot) -> Cause:
    """Explains a claim: its deletion, else the binder's decision about it."""
    if claim.deleting:
        return _vanishing(claim, known)
    named = known.volumes.get(claim.spec.volume_name or "")
    storage_class = known.classes.get(claim.storage_class)
    default = default_class(known.classes.values())
    decision = decide_claim(claim, named, known.free, storage_class, default)
    reason = decision.reason
    match decision.action:
        case Action.BIND:
            assert decision.volume is not None
            return _bound(claim, decision.volume, known)
        case Action.LOST:
            step = "its data is not reachable through this claim: restore the volume, or delete the claim"
            return Cause(about(claim), reason, next_step=step)
        case Action.PROVISION:
            return _provisioning(claim, reason, known)
        case Action.ASSIGN_CLASS:
            step = "this lasts moments; if not, see whether the binding controller runs: mooring status"
            return Cause(about(claim), reason, next_step=step)
        case Action.WAIT:
            return _waiting(claim, reason, known)
        case _:
            assert_never(decision.action)


def _bound(claim: PersistentVolumeClaim, volume: PersistentVolume, known: Snapshot) -> Cause:
    if claim.status.phase != "Bound":
        message = f"volume {volume.name} fits and is being bound to the claim"
        step = "this lasts moments; if not, see whether the binding controller runs: mooring status"
        return Cause(about(claim), Reason("Binding", message), next_step=step)
    trouble = explain_volume(volume, known)
    if trouble.ok:
        return _growing(claim) or fine(claim, f"claim {claim.key} is bound to volume {volume.name}", "Bound")
    message = f"claim {claim.key} is bound to volume {volume.name}, which has a problem"
    return Cause(about(claim), Reason("VolumeHasProblem", message)).because(trouble)


_GROWING = {
    CONTROLLER_RESIZE_ERROR: (
        "its volume cannot grow",
        "ask for what it can have, or mend what the storage says",
    ),
    NODE_RESIZE_ERROR: (
        "its file system cannot grow",
        "mend what the node says, or start its pods on another one",
    ),
    FILE_SYSTEM_RESIZE_PENDING: (
        "its volume has grown, and its file system grows where it is mounted",
        "this lasts moments where a pod uses it; else it grows when the next one does",
    ),
    RESIZING: ("its volume grows in the storage", "this lasts moments; if not: kubectl describe pvc"),
}
"""What a claim waits for by its conditions, the first that it has; and the next step."""


def _growing(claim: PersistentVolumeClaim) -> Cause | None:
    held = {each.type: each for each in claim.status.conditions if each.status == "True"}
    for type_, (what, step) in _GROWING.items():
        if (found := held.get(type_)) is not None:
            size = claim.spec.resources.requests.get("storage", "")
            said = f"claim {claim.key} asks for {size}: {what}{f': {found.message}' if found.message else ''}"
            since = found.last_transition_time or ""
            return Cause(about(claim), Reason(type_, said), since=since, next_step=step)
    return None


def _provisioning(claim: PersistentVolumeClaim, reason: Reason, known: Snapshot) -> Cause:
    failed = known.warning(claim, "ProvisioningFailed")
    if failed is not None:
        step = "it is tried again by itself; mend what the storage says, or the class's parameters"
        return Cause(
            about(claim),
            Reason(failed.reason, failed.message),
            since=failed.last_timestamp or "",
            next_step=step,
        )
    storage_class = known.classes[claim.storage_class]
    missing = _missing_provisioner(driver_of(storage_class.provisioner), known)
    what = Cause(f"storageclass/{storage_class.name}", missing) if missing else None
    step = (
        f"install the driver {driver_of(storage_class.provisioner)}, or name another class" if missing else ""
    )
    return Cause(about(claim), reason, since=claim.metadata.creation_timestamp or "", next_step=step).because(
        what
    )


def _missing_provisioner(name: str, known: Snapshot) -> Reason | None:
    """Returns a reason if the provisioner is neither a plugin nor a registered CSI driver."""
    try:
        known.plugins.find_provisionable_plugin_by_name(name)
    except VolumeError:
        if name not in known.drivers:
            return Reason("ProvisionerMissing", f"there is no plugin and no CSIDriver named {name}")
    return None


def _waiting(claim: PersistentVolumeClaim, reason: Reason, known: Snapshot) -> Cause:
    since = claim.metadata.creation_timestamp or ""
    wanted = claim.spec.storage_class_name
    if reason.code == "WaitForFirstConsumer":
        users = known.users_of_claim(claim)
        step = (
            "create a pod that uses it"
            if not users
            else f"see: mooring why pod/{users[0].name} -n {claim.namespace}"
        )
        return Cause(about(claim), reason, since=since, next_step=step)
    if reason.code == "ProvisioningFailed":
        others = ", ".join(sorted(known.classes)) or "none"
        return Cause(
            about(claim), reason, since=since, next_step=f"create class {wanted}; there are: {others}"
        )
    step = "create a volume that fits, or change the claim" + (
        "" if wanted else ": it names no storage class"
    )
    return Cause(about(claim), reason, since=since, next_step=step).because(*_candidates(claim, known))


def _candidates(claim: PersistentVolumeClaim, known: Snapshot) -> list[Cause]:
    """Returns why each volume does not fit; those of the claim's own class first."""
    wanted = claim.storage_class
    volumes = sorted(known.volumes.values(), key=lambda pv: (pv.spec.storage_class_name != wanted, pv.name))
    unfit = [Cause(about(pv), Reason("DoesNotFit", _unfit(pv, claim))) for pv in volumes[:MOST_CANDIDATES]]
    if len(volumes) > MOST_CANDIDATES:
        rest = len(volumes) - MOST_CANDIDATES
        more = f"{counted(rest, 'more volume')} {'does' if rest == 1 else 'do'} not fit either"
        unfit.append(Cause("pv", Reason("DoesNotFit", more)))
    return unfit


def _unfit(pv: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    problem = mismatch(pv, claim)
    if problem is not None:
        return problem
    reference = pv.spec.claim_ref
    if reference is not None:
        return f"volume {pv.name} is taken by claim {reference.namespace}/{reference.name}"
    if pv.status.phase != "Available":
        return f"volume {pv.name} is {pv.status.phase or 'not yet Available'}"
    return f"volume {pv.name} does not match the claim's selector"


def _vanishing(claim: PersistentVolumeClaim, known: Snapshot) -> Cause:
    since = claim.metadata.deletion_timestamp or ""
    users = known.users_of_claim(claim)
    if users:
        names = ", ".join(pod.key for pod in users)
        message = f"claim {claim.key} is being deleted, and kept while pods use it: {names}"
        return Cause(
            about(claim), Reason("HeldByFinalizer", message), since=since, next_step=f"delete {names}"
        )
    held = ", ".join(claim.metadata.finalizers) or "nothing"
    message = f"claim {claim.key} is being deleted, and held by {held}"
    step = "the controller that set the finalizer removes it when its work is done: look at its log"
    return Cause(about(claim), Reason("HeldByFinalizer", message), since=since, next_step=step)
