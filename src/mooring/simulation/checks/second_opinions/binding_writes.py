"""What the binder writes, what it leaves as it is, and what it looks at again when something changes.

Sources: as of `bindings`. Upstream binds by four writes: the volume names the claim; the volume's phase; the
claim names the volume; the claim's phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mooring.controllers.binding.controller import BindingController
from mooring.controllers.binding.decide import ClaimDecision
from mooring.kube.errors import KubeError
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.simulation.checks.second_opinions.bindings import (
    BOUND,
    BY_CONTROLLER,
    grower,
    is_default,
    is_offered,
    may_have,
)
from mooring.simulation.checks.second_opinions.question import Question

RESIZER = "volume.kubernetes.io/storage-resizer"


def of_written_claim(
    answer: PersistentVolumeClaim,
    asked: Any,
    claim: PersistentVolumeClaim,
    patch: dict[str, Any],
    subresource: str | None = None,
    **how: bool,
) -> Iterator[str]:
    """A claim is marked as bound with the write that names its volume, if it did not name one; before its
    status says so. Only one that was bound is Lost, and only one that was not waits."""
    annotations: dict[str, Any] = patch.get("metadata", {}).get("annotations", {})
    spec, phase = patch.get("spec", {}), patch.get("status", {}).get("phase")
    bound, chosen = BOUND in claim.metadata.annotations, not claim.spec.volume_name
    if (BOUND in annotations) != ("volumeName" in spec):
        yield f"claim {claim.key} is marked as bound and names no volume, or the other way round"
    if "volumeName" in spec and (BY_CONTROLLER in annotations) != chosen:
        yield f"the volume of claim {claim.key} is told as chosen by the controller: {not chosen}"
    if "volumeName" in spec and not chosen and spec["volumeName"] != claim.spec.volume_name:
        yield f"claim {claim.key} is given another volume than {claim.spec.volume_name}"
    if phase is not None and bound != (phase in ("Bound", "Lost")):
        yield f"claim {claim.key} is {phase}, and is{'' if bound else ' not'} marked as bound"
    if "storageClassName" in spec and claim.spec.storage_class_name is not None:
        yield f"claim {claim.key} has a class, and is given {spec['storageClassName']}"
    yield from _of_protection(claim, patch, "kubernetes.io/pvc-protection")


def _of_release(pv: PersistentVolume, patch: dict[str, Any]) -> Iterator[str]:
    """A volume that is taken from its claim keeps a reservation that its creator has made, by name; one that
    the controller has chosen is as it was before."""
    if BY_CONTROLLER not in pv.metadata.annotations:
        expected: dict[str, Any] = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
    else:
        expected = {"spec": {"claimRef": None}, "metadata": {"annotations": {BY_CONTROLLER: None}}}
    if patch != expected:
        yield f"{pv.name} is taken from its claim by {patch}, and not {expected}"


def of_written_volume(
    answer: PersistentVolume,
    asked: Any,
    pv: PersistentVolume,
    patch: dict[str, Any],
    subresource: str | None = None,
    **how: bool,
) -> Iterator[str]:
    """Only a volume that is free, or reserved for this very claim, is given to one, and is told as chosen by
    the controller if it was free. A phase is written once, after the claimRef that it speaks of."""
    reference, phase = patch.get("spec", {}).get("claimRef"), patch.get("status", {}).get("phase")
    annotations: dict[str, Any] = patch.get("metadata", {}).get("annotations", {})
    named = pv.spec.claim_ref
    if reference is not None and "name" in reference:
        if (annotations.get(BY_CONTROLLER) == "yes") != (named is None):
            yield f"{pv.name}, which named {named}, is told as chosen: {annotations}"
        if named is not None and (
            (named.namespace, named.name) != (reference["namespace"], reference["name"])
            or named.uid not in ("", reference["uid"])
        ):
            yield f"{pv.name} of {named} is given to {reference}"
    elif "spec" in patch:
        yield from _of_release(pv, patch)
    of_claim = named is not None and bool(named.uid)
    if phase is not None and (phase == pv.status.phase or of_claim != (phase != "Available")):
        yield f"{pv.name} of {named}, which was {pv.status.phase}, is {phase}"
    if phase is not None and patch["status"].get("message", "kept") is not None:
        yield f"{pv.name} is {phase}, and keeps the message of its former phase"
    if pv.deleting and pv.status.phase == "Bound" and "finalizers" in patch.get("metadata", {}):
        yield f"{pv.name} is bound, and loses its protection"
    yield from _of_protection(pv, patch, "kubernetes.io/pv-protection")


def of_waiting(
    answer: None, asked: Any, claim: PersistentVolumeClaim, decision: ClaimDecision
) -> Iterator[str]:
    """The claim says why it waits, and nothing of a volume."""
    if asked.recorder._last_reasons.get((claim.uid, "")) != decision.reason:
        yield f"claim {claim.key} does not say that it waits: {decision.reason}"
    status = claim.status
    wrong = status.access_modes or status.capacity or status.phase in ("Bound", "Lost")
    if wrong and asked._claims.get(claim.key) is claim:
        yield f"claim {claim.key} waits, and has status {status}"


def of_losing(
    answer: None, asked: Any, claim: PersistentVolumeClaim, decision: ClaimDecision
) -> Iterator[str]:
    """The claim says what it has lost, unless a look shows that it has not."""
    if may_have(claim, asked._volumes.get(claim.spec.volume_name)):
        return
    if asked.recorder._last_reasons.get((claim.uid, "")) != decision.reason:
        yield f"claim {claim.key} does not say that it is lost: {decision.reason}"
    if claim.status.phase != "Lost" and asked._claims.get(claim.key) is claim:
        yield f"claim {claim.key} is lost, and is {claim.status.phase}"


def of_binding(answer: None, asked: Any, claim: PersistentVolumeClaim, pv: PersistentVolume) -> Iterator[str]:
    """A claim to which nothing has to be written is bound already, and its volume names it."""
    if asked._claims.get(claim.key) is claim:
        resizer = grower(claim, pv)
        marked = BOUND in claim.metadata.annotations and claim.spec.volume_name == pv.name
        if not marked or claim.status.phase != "Bound":
            yield f"claim {claim.key} is not bound to {pv.name}"
        if resizer is not None and claim.metadata.annotations.get(RESIZER) != resizer:
            yield f"claim {claim.key} is to be grown by {resizer}, and does not say so"
    of_claim = pv.spec.claim_ref is not None and pv.spec.claim_ref.uid == claim.uid
    if asked._volumes.get(pv.name) is pv and not (of_claim and pv.status.phase == "Bound"):
        yield f"volume {pv.name} is {pv.status.phase} and not bound to claim {claim.key}"


def of_an_end(
    answer: KubeError | None, asked: Any, claim: PersistentVolumeClaim, pv: PersistentVolume
) -> Iterator[str]:
    """A volume that one claim was being bound to is kept for no other any longer, and is looked at again: the
    claim may have gone meanwhile. If it is free still, all that wait for one of its class may have it."""
    if pv.name in asked._chosen:
        yield f"{pv.name} is kept for claim {claim.key}, which is not being bound to it"
    known = asked._volumes.get(pv.name)
    waiting = _waiting(asked, known.spec.storage_class_name) if known and is_offered(known) else set[object]()
    for key in {VolumeKey(pv.name), *waiting} - {ClaimKey(claim.key)}:
        if key not in asked.queue:
            yield f"{pv.name} was not bound to claim {claim.key}, and {key} is not looked at again"


def _of_protection(
    each: PersistentVolume | PersistentVolumeClaim, patch: dict[str, Any], finalizer: str
) -> Iterator[str]:
    """What is deleted loses its protection and no other finalizer; what stays is given it."""
    if "finalizers" not in patch.get("metadata", {}):
        return
    before, after = set(each.metadata.finalizers), set(patch["metadata"]["finalizers"] or ())
    if after != (before - {finalizer} if each.deleting else before | {finalizer}) or after == before:
        yield f"the finalizers of {each.key} were {sorted(before)}, and are {sorted(after)}"


# --- what is looked at again when something changes


def _waiting(asked: Any, name: str) -> set[object]:
    """The claims that are not bound and could get a volume of this class."""
    return {
        ClaimKey(each.key)
        for each in asked._claims.items()
        if (each.spec.storage_class_name or "") == name and BOUND not in each.metadata.annotations
    }


def _around(asked: Any, pv: PersistentVolume) -> set[object]:
    """The volume, the claim that it names, and those that name it."""
    named = pv.spec.claim_ref
    claims = {ClaimKey(each.key) for each in asked._claims.items() if each.spec.volume_name == pv.name}
    there = {ClaimKey(f"{named.namespace}/{named.name}")} if named is not None else set[ClaimKey]()
    return {VolumeKey(pv.name), *claims, *there}


def _marked(what: str, answer: Iterable[object], expected: set[object]) -> Iterator[str]:
    for each in expected.symmetric_difference(answer):
        yield f"a change of {what} {'does not mark' if each in expected else 'marks'} {each}"


def of_changed_claim(answer: Iterable[object], asked: Any, claim: PersistentVolumeClaim) -> Iterator[str]:
    """Volumes that name the claim, and the one that it names, may have waited for it to go."""
    volumes = {
        VolumeKey(pv.name)
        for pv in asked._volumes.items()
        if (named := pv.spec.claim_ref) and (named.namespace, named.name) == (claim.namespace, claim.name)
    }
    if claim.spec.volume_name:
        volumes.add(VolumeKey(claim.spec.volume_name))
    yield from _marked(f"claim {claim.key}", answer, {ClaimKey(claim.key), *volumes})


def of_new_volume(answer: Iterable[object], asked: Any, pv: PersistentVolume) -> Iterator[str]:
    """A free volume may be what claims wait for."""
    waiting = _waiting(asked, pv.spec.storage_class_name) if is_offered(pv) else set[object]()
    yield from _marked(f"volume {pv.name}", answer, _around(asked, pv) | waiting)


def of_changed_volume(
    answer: Iterable[object], asked: Any, old: PersistentVolume, new: PersistentVolume
) -> Iterator[str]:
    waiting = _waiting(asked, new.spec.storage_class_name) if is_offered(new) else set[object]()
    yield from _marked(f"volume {new.name}", answer, _around(asked, old) | _around(asked, new) | waiting)


def of_changed_class(answer: Iterable[object], asked: Any, storage_class: StorageClass) -> Iterator[str]:
    """A default class is that of claims that name none, too."""
    expected = _waiting(asked, storage_class.name)
    if is_default(storage_class):
        expected |= _waiting(asked, "")
    yield from _marked(f"class {storage_class.name}", answer, expected)


QUESTIONS = (
    Question(BindingController, "_wait", of_waiting),
    Question(BindingController, "_lose", of_losing),
    Question(BindingController, "_bind", of_binding),
    Question(BindingController, "_bind_alone", of_an_end, refusals=(KubeError,)),
    Question(BindingController, "_patch_claim", of_written_claim),
    Question(BindingController, "_patch_volume", of_written_volume),
    Question(BindingController, "_touched_by_claim", of_changed_claim),
    Question(BindingController, "_touched_by_volume", of_new_volume),
    Question(BindingController, "_touched_by_change", of_changed_volume),
    Question(BindingController, "_touched_by_class", of_changed_class),
)
