"""What a fence does next that was shown to hold: it releases, is looked at again, and ends when another boot
reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.controllers.fencing.decisions import Action, FenceDecision, do
from mooring.controllers.fencing.same_boot import is_another_machine, name_taken
from mooring.fence.interface import Scope
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceAttempt, FenceTarget, NodeFence
from mooring.kube.reason import Reason
from mooring.volumes.node_fences import Phase, is_off
from mooring.volumes.statements import last_report

VERIFY_S = 60.0
"""Seconds after which a fence in force is looked at again."""
RELEASE_PATIENCE_S = 300.0
"""So long, at the most, is a machine left off because something that it had is not released yet: pods may
tolerate that their node is out of service, and stay."""
RELEASE_LOOK_S = 2.0


def in_force(
    fence: NodeFence,
    target: FenceTarget,
    node: Node | None,
    proof: FenceAttempt,
    ages: Mapping[str, float],
    after_fence: str,
    *,
    releases_pods: bool,
    left: bool,
    waits: Reason | None,
) -> FenceDecision:
    """A fence that was shown to hold. `ages`: as `decide_fence` has them. `waits`: why it is not let in yet,
    though it answers."""
    status, where = fence.status, f"node {target.node_name}"
    released = _what_is_released(proof, releases_pods=releases_pods)
    if node is not None and is_another_machine(node, target):
        return _replaced(fence, target, proof)
    if node is not None and node.status.node_info.boot_id != target.boot_id:
        return _returned(fence, target, node, proof)
    if node is not None and is_off(proof) and _has_reported_since(node, target, proof):
        message = (
            f"{proof.mechanism} said that {where} is off, and its agent reports in the same boot: what was released is "
            "withdrawn"
        )
        return do(Action.WITHDRAW, Phase.AWAITING_PERSON, Reason("Contradicted", message))
    if node is None and status.power_on_at and not is_off(proof):
        message = f"{where} was let in again by {proof.mechanism}, and its Node is gone since"
        return do(Action.CLOSE, Phase.UNFENCED, Reason("NodeGone", message))
    asked = fence.spec.unfence or fence.deleting
    if node is None and left and not (proof.absent or asked or status.power_on_at):
        message = (
            f"{where} was cut off ({proof.mechanism}) before its Node was deleted, which says nothing of a later boot: "
            "it is shown once more"
        )
        return do(Action.REOPEN, Phase.PENDING, Reason("NodeGone", message))
    if not status.released_at and not asked:
        if node is not None and node.ready != "Unknown":
            message = (
                f"{where} is cut off: {proof.message}; what it had is released as soon as the API does not show it as "
                "answering any more"
            )
            return FenceDecision(Action.WAIT, Reason("StillShown", message), Phase.FENCED, after=VERIFY_S)
        message = f"{where} is cut off: {proof.message}; {released}"
        return do(Action.RELEASE, Phase.FENCED, Reason("Fenced", message))
    wanted = asked or after_fence == "PowerOn"
    due = VERIFY_S - ages.get(status.verified_at or proof.answered_at, 0.0)
    patient = bool(status.released_at) and ages.get(status.released_at, 0.0) < RELEASE_PATIENCE_S
    if left and wanted and not asked and is_off(proof) and patient and not status.power_on_at:
        message = f"{where} is cut off, and what it had is being released: it is switched on after that"
        action = Action.VERIFY if due <= 0 else Action.WAIT
        return FenceDecision(action, Reason("Releasing", message), Phase.FENCED, after=RELEASE_LOOK_S)
    if fence.deleting and node is None and is_off(proof):
        return do(Action.CLOSE, Phase.UNFENCED, Reason("NodeGone", f"{where} does not exist any more"))
    if wanted and is_off(proof) and not status.power_on_at:
        return do(Action.UNFENCE, Phase.FENCED, Reason("SwitchedOn", f"{where} is switched on again"))
    waits = waits or _waits_for(fence, target, proof, released, wanted)
    if due <= 0 or (proof.volumes and releases_pods != status.releases_pods):
        return FenceDecision(Action.VERIFY, waits, Phase.FENCED)
    return FenceDecision(Action.WAIT, waits, Phase.FENCED, after=due)


def _what_is_released(proof: FenceAttempt, *, releases_pods: bool) -> str:
    """By what the evidence shows, and no more."""
    if is_off(proof):
        return "what it had is released"
    if proof.volumes:
        names = ", ".join(sorted(set(proof.volumes.values())))
        opted = releases_pods and proof.scope == Scope.STORAGE
        pods = "pods of StatefulSets that share nothing else" if opted else "none of its pods"
        return f"released is what it cannot write any more ({names}), and {pods}"
    return "that releases nothing by itself"


def _has_reported_since(node: Node, target: FenceTarget, proof: FenceAttempt) -> bool:
    """Whether an agent of that boot has written a status after the answer, or has registered anew, as a
    machine that is off cannot. What was not read after the answer is not compared."""
    return node.uid != target.node_uid or (proof.report != "" and last_report(node) != proof.report)


def _waits_for(
    fence: NodeFence, target: FenceTarget, proof: FenceAttempt, released: str, wanted: bool
) -> Reason:
    where = f"node {target.node_name}"
    if is_off(proof):
        if fence.status.power_on_at:
            return Reason("Returning", f"{where} was switched on: it is free when its new boot reports")
        how = f"`mooring fence release {target.node_name}` switches it on"
        return Reason(
            "Fenced", f"{where} is off ({proof.mechanism}); it is free when a new boot reports: {how}"
        )
    asked = "it is to be let in again, and " if wanted else ""
    message = (
        f"{where} is shut out ({proof.mechanism}); {released}; {asked}it is let in after a new boot: "
        "restart its machine"
    )
    return Reason("Fenced", message)


def _returned(fence: NodeFence, target: FenceTarget, node: Node, proof: FenceAttempt) -> FenceDecision:
    """Another boot, or another registration, reports."""
    where = f"node {target.node_name}"
    if not is_off(proof) and not fence.status.power_on_at:
        return do(
            Action.UNFENCE,
            Phase.FENCED,
            Reason("NewBoot", f"{where} has booted anew: {proof.mechanism} lets it in"),
        )
    boot = node.status.node_info.boot_id
    return do(Action.CLOSE, Phase.UNFENCED, Reason("NewBoot", f"{where} reports in another boot ({boot})"))


def _replaced(fence: NodeFence, target: FenceTarget, proof: FenceAttempt) -> FenceDecision:
    """Another machine has taken the name. One that is shut out may run on, and stays so until a person asks
    for the end of that: no boot of another one shows that it has forgotten what it wanted to write."""
    asked = fence.spec.unfence or fence.deleting
    if is_off(proof) or fence.status.power_on_at:
        return do(Action.CLOSE, Phase.UNFENCED, Reason("AnotherMachine", name_taken(target)))
    if asked:
        message = f"{name_taken(target)}: {proof.mechanism} lets that in, as it was asked for"
        return do(Action.UNFENCE, Phase.FENCED, Reason("AnotherMachine", message))
    advice = f"once it is certainly off or was started anew: mooring fence release {target.node_name}"
    message = f"{name_taken(target)}: that stays shut out ({proof.mechanism}); {advice}"
    return FenceDecision(Action.WAIT, Reason("AnotherMachine", message), Phase.FENCED, after=VERIFY_S)
