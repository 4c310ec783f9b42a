"""The events about attaching and detaching, in upstream's words (kube-controller-manager,
`attachdetach/reconciler`). Pure.

Pods of other namespaces are never named. What upstream does not say (what keeps the volume with the other
node) comes after upstream's sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.controllers.attachdetach.decide import how_held
from mooring.controllers.attachdetach.state import Action, VolumeDecision, VolumeState
from mooring.kube.objects import VolumeAttachment

REPEAT_S = 300.0
"""Seconds after which a warning that lasts is sent again: the API server keeps events for an hour only."""


LEAVES_S = 10.0
"""Seconds for which it is no news that a volume that no pod uses any more is still on its way from another
node: so it is in every drain. (Upstream warns at once, in every drain.)"""


class EventText(NamedTuple):
    """Type, reason and message of an event."""

    type: str
    reason: str
    message: str


def about_pods(spec_name: str, decision: VolumeDecision, record: VolumeAttachment | None) -> EventText | None:
    """Returns the event for the pods of a decision, or None. Multi-attach errors: `multi_attach`."""
    if decision.action is Action.REPORT and decision.pods:
        return EventText(
            "Normal", "SuccessfulAttachVolume", f'AttachVolume.Attach succeeded for volume "{spec_name}"'
        )
    if record is not None and record.status.attach_error is not None and decision.reason.code == "Attaching":
        error = record.status.attach_error.message
        return EventText(
            "Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{spec_name}" : {error}'
        )
    if decision.reason.code in ("ClosedNode", "LockDamaged"):
        error = decision.reason.message
        return EventText(
            "Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{spec_name}" : {error}'
        )
    return None


def about_node(spec_name: str, record: VolumeAttachment | None) -> EventText | None:
    """Returns the event for the Node about a detach that fails, or None."""
    if record is None or not record.deleting or record.status.detach_error is None:
        return None
    error = record.status.detach_error.message
    return EventText(
        "Warning", "FailedDetachVolume", f'DetachVolume.Detach failed for volume "{spec_name}" : {error}'
    )


def refused(spec_name: str, decision: VolumeDecision, error: Exception) -> EventText:
    """Returns the event about what the API server refuses: for the pods of the decision, or for the Node if
    none wants the volume there."""
    if decision.pods:
        return EventText(
            "Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{spec_name}" : {error}'
        )
    return EventText(
        "Warning", "FailedDetachVolume", f'DetachVolume.Detach failed for volume "{spec_name}" : {error}'
    )


def multi_attach(spec_name: str, pod: str, decision: VolumeDecision, state: VolumeState) -> EventText:
    """Returns the event why the pod ("namespace/name") must wait: one of upstream's four forms, then what
    keeps the volume with the other node."""
    users = [key for demand in state.demands if demand.node != decision.node for key in demand.pods]
    wanted = {demand.node for demand in state.demands}
    holders = [each for each in state.holding if each.node not in wanted]
    why = "".join(f"; {how_held(state, each)}" for each in holders)
    return EventText(
        "Warning",
        "FailedAttachVolume",
        f'Multi-Attach error for volume "{spec_name}" {used_by(pod, users)}{why}',
    )


def is_leaving(decision: VolumeDecision, state: VolumeState) -> bool:
    """Whether the volume waits for nothing but its way from a node on which no pod wants it."""
    return all(demand.node == decision.node for demand in state.demands)


def used_by(pod: str, users: Sequence[str]) -> str:
    """Returns the middle of upstream's sentence in one of its four forms: pods of other
    namespaces are only counted."""
    namespace = pod.partition("/")[0]
    near = [key.partition("/")[2] for key in users if key.partition("/")[0] == namespace]
    far = len(users) - len(near)
    others = f"{far} pod(s) in different namespaces" if far else ""
    if not users:
        return "Volume is already exclusively attached to one node and can't be attached to another"
    if not near:
        return f"Volume is already used by {others}"
    return f"Volume is already used by pod(s) {', '.join(near)}{f' and {others}' if far else ''}"
