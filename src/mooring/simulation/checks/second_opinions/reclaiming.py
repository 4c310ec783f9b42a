"""What is decided on the way to the end of a volume whose claim is gone.

Sources: docs/protocol.md, "Reclaim": the mark, the claim, and who may have the volume still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mooring.controllers.provisioning import reclaim
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.reclaim import Reclaimer
from mooring.kube.keys import VolumeKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.checks.second_opinions import near_reclaims
from mooring.simulation.checks.second_opinions.provisionings import finalizer, maker_of
from mooring.simulation.checks.second_opinions.question import Question


def of_maker(answer: str, pv: PersistentVolume) -> Iterator[str]:
    if answer != maker_of(pv):
        yield f"{pv.name} is made by {answer}, and not by {maker_of(pv)}"


def of_finalizer(answer: str, provisioner: str) -> Iterator[str]:
    if answer != finalizer(provisioner):
        yield f"volumes of {provisioner} are held by {answer}"


def of_held(answer: bool, pv: PersistentVolume) -> Iterator[str]:
    if answer != (finalizer(maker_of(pv)) in pv.metadata.finalizers):
        yield f"{pv.name} is held by its finalizer: {answer}"


def of_release(answer: PersistentVolume, asked: Any, pv: PersistentVolume) -> Iterator[str]:
    """What is released loses the finalizer that holds it, and no other."""
    left = {*pv.metadata.finalizers} - {finalizer(maker_of(pv))}
    if {*answer.metadata.finalizers} != left:
        yield f"{pv.name} is released, and keeps {answer.metadata.finalizers}, and not {sorted(left)}"


def of_mark(answer: bool, persistent_volume: PersistentVolume) -> Iterator[str]:
    """Released or Failed is the mark, where the policy does not keep what is there."""
    kept = persistent_volume.spec.persistent_volume_reclaim_policy not in ("Delete", "Recycle")
    without = persistent_volume.status.phase in ("Released", "Failed")
    if answer != (without and not kept):
        yield f"{persistent_volume.name} is to be reclaimed: {answer}"


def of_end(answer: bool, pv: PersistentVolume, claim: PersistentVolumeClaim | None) -> Iterator[str]:
    """The claim of the volume is the one of its uid, and has it, or no volume yet."""
    named = pv.spec.claim_ref
    uid = named.uid if named is not None else ""
    has = claim is not None and claim.uid == uid and claim.spec.volume_name in (pv.name, "")
    if answer != (bool(uid) and not has):
        yield f"the claim of {pv.name} is gone: {answer}"


def of_users(answer: Sequence[Pod], key: str, pods: Iterable[Pod]) -> Iterator[str]:
    """A pod that names the claim, has a node and has not ended may have mounted it."""
    namespace, _, name = key.partition("/")
    for pod in pods:
        names = {
            each.persistent_volume_claim.claim_name
            if each.persistent_volume_claim is not None
            else f"{pod.name}-{each.name}"
            for each in pod.spec.volumes
            if each.persistent_volume_claim is not None or each.ephemeral is not None
        }
        ended = pod.status.phase in ("Succeeded", "Failed")
        uses = name in names and namespace == pod.namespace and bool(pod.spec.node_name) and not ended
        if uses != (pod in answer):
            yield f"pod {pod.key} {'uses' if uses else 'does not use'} claim {key}"


def of_former_users(
    answer: Sequence[Pod],
    pods: Iterable[Pod],
    pv: PersistentVolume,
    claim: PersistentVolumeClaim | None,
    *,
    attached: bool,
) -> Iterator[str]:
    """A pod that names the claim has its volume. If that is another one by now, or that of a successor which
    is older than the pod, or which alone could be attached, the pod has not the one that is to go."""
    named, born = pv.spec.claim_ref, claim.metadata.creation_timestamp or "" if claim is not None else ""
    same = claim is not None and named is not None and named.uid == claim.uid
    for pod in pods:
        younger = (pod.metadata.creation_timestamp or "") > born
        has_other = claim is not None and (same or attached or younger)
        if has_other == (pod in answer):
            yield f"pod {pod.key} {'cannot' if has_other else 'may'} have {pv.name}"


def of_known_nodes(answer: Sequence[str], asked: Any, pv: PersistentVolume) -> Iterator[str]:
    """All nodes to which a VolumeAttachment of the volume names."""
    expected = sorted(
        each.spec.node_name
        for each in asked._attachments.items()
        if each.spec.source.persistent_volume_name == pv.name
    )
    if sorted(answer) != expected:
        yield f"{pv.name} is attached to {answer}, and not to {expected}"


def is_delayed(asked: Any, pv: PersistentVolume) -> bool:
    """Whether a timer has it looked at, such as that of a failure before."""
    return asked.queue.is_delayed(VolumeKey(pv.name))


def of_what_is_left(answer: None, before: bool, asked: Any, pv: PersistentVolume) -> Iterator[str]:
    """A volume that is attached is looked at again when a VolumeAttachment of it goes, and not before."""
    attached = any(
        each.spec.source.persistent_volume_name == pv.name for each in asked._reclaimer._attachments.items()
    )
    if attached and not before and is_delayed(asked, pv):
        yield f"{pv.name} is attached, and is looked at again before it is detached"


QUESTIONS = (
    Question(reclaim, "made_by", of_maker, near=near_reclaims.OF_VOLUME_ALONE),
    Question(reclaim, "is_held", of_held, near=near_reclaims.OF_VOLUME_ALONE),
    Question(reclaim, "finalizer_of", of_finalizer),
    Question(reclaim, "to_be_reclaimed", of_mark, near=near_reclaims.OF_MARK),
    Question(reclaim, "has_no_claim", of_end, near=near_reclaims.OF_END),
    Question(reclaim, "users_of_claim", of_users, near=near_reclaims.OF_USERS),
    Question(reclaim, "may_have_mounted", of_former_users, near=near_reclaims.OF_FORMER_USERS),
    Question(Reclaimer, "_known_nodes", of_known_nodes),
    Question(Reclaimer, "release", of_release),
    Question(ProvisioningController, "_reconcile_volume", of_what_is_left, before=is_delayed),
)
