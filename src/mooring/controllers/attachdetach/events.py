"""What users are told about attaching and detaching, in upstream's words (reference section 1.12). Pure.

Names of pods of other namespaces are never told. What upstream does not say (why the other node keeps the volume)
comes after its sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.controllers.attachdetach.decide import how_held
from mooring.controllers.attachdetach.state import Action, Decision, VolumeState
from mooring.kube.objects import VolumeAttachment

REPEAT_S = 300.0
"""What lasts is told again after this time, in seconds: events are kept for an hour only."""


class Told(NamedTuple):
    """Type, reason and message of an event."""

    type: str
    reason: str
    message: str


def about_pods(spec_name: str, decision: Decision, record: VolumeAttachment | None) -> Told | None:
    """What the pods of a decision are told of it; of a multi-attach error see `multi_attach`."""
    if decision.action is Action.REPORT and decision.pods:
        return Told("Normal", "SuccessfulAttachVolume", f'AttachVolume.Attach succeeded for volume "{spec_name}"')
    if record is not None and record.status.attach_error is not None and decision.reason.code == "Attaching":
        said = record.status.attach_error.message
        return Told("Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{spec_name}" : {said}')
    if decision.reason.code in ("ClosedNode", "LockDamaged"):
        said = decision.reason.message
        return Told("Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{spec_name}" : {said}')
    return None


def about_node(spec_name: str, record: VolumeAttachment | None) -> Told | None:
    """What is told of a detach that fails."""
    if record is None or not record.deleting or record.status.detach_error is None:
        return None
    said = record.status.detach_error.message
    return Told("Warning", "FailedDetachVolume", f'DetachVolume.Detach failed for volume "{spec_name}" : {said}')


def multi_attach(spec_name: str, pod: str, decision: Decision, state: VolumeState) -> Told:
    """Why the pod ("namespace/name") must wait: upstream's four forms, then what keeps the volume where it is."""
    users = [key for demand in state.demands if demand.node != decision.node for key in demand.pods]
    wanted = {demand.node for demand in state.demands}
    holders = [each for each in state.holding if each.node not in wanted]
    why = "".join(f"; {how_held(state, each)}" for each in holders)
    return Told(
        "Warning", "FailedAttachVolume", f'Multi-Attach error for volume "{spec_name}" {used_by(pod, users)}{why}'
    )


def used_by(pod: str, users: Sequence[str]) -> str:
    """Upstream's four forms, for a pod's user."""
    namespace = pod.partition("/")[0]
    near = [key.partition("/")[2] for key in users if key.partition("/")[0] == namespace]
    far = len(users) - len(near)
    others = f"{far} pod(s) in different namespaces" if far else ""
    if not users:
        return "Volume is already exclusively attached to one node and can't be attached to another"
    if not near:
        return f"Volume is already used by {others}"
    return f"Volume is already used by pod(s) {', '.join(near)}{f' and {others}' if far else ''}"
