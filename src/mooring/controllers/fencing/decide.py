"""Every rule of fencing, as pure functions over plain values: whether a node is fenced, and what a fence does
next.

The order of a fence never changes: the target is frozen; the order is written; the Node is read live; the
order is given; its answer is judged and written; what the node had is released, by a live read of the same
uid and boot; the fence is looked at again and again; it ends when another boot reports. Nothing here reads a
clock, an API or a mechanism.

- A fence is given up when the node answers, unless a person has asked for it or an order's answer is still to
  come.
- A fence whose word is contradicted (a second source, or the node itself, which reports in the same boot)
  releases nothing, and what was released on it is withdrawn.
- A node that its storage shuts out is let in by another boot, or when nothing of the old attachments is left
  (`letting_in`): first nothing is released any more, then that is looked at live and written down, then the
  order is given.
- At the end of the ladder a person is asked, and after a while the ladder is begun again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import Enum

from msgspec.structs import replace

from mooring.controllers.fencing.detection import (
    HEARD_BY_PEERS,
    PEERS_ASKED,
    PEERS_MISSING,
    SEEN_BY_STORAGE,
    Company,
    Held,
    Loss,
    Poll,
    Signal,
    Stakes,
    held_by_peers,
    held_by_storage,
    is_lost,
    loss_of,
    not_worth,
    over_budget,
    policies_of,
    storm,
)
from mooring.controllers.fencing.ladder import Step, next_step
from mooring.controllers.fencing.letting_in import LOOK_S, is_wanted, what_is_left
from mooring.controllers.fencing.names import FINALIZER
from mooring.fence.interface import Scope
from mooring.kube.decision import Decision
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceAttempt, FencePolicy, FenceTarget, NodeFence, Rung
from mooring.kube.reason import Reason
from mooring.kube.times import parse_time
from mooring.volumes.machines import Machine, are_two, machine_of
from mooring.volumes.node_fences import Phase, is_off, proof_of
from mooring.volumes.out_of_service import out_of_service
from mooring.volumes.statements import last_report

__all__ = [
    "HEARD_BY_PEERS",
    "SEEN_BY_STORAGE",
    "Action",
    "Begin",
    "FenceDecision",
    "NodeDecision",
    "Phase",
    "begins_now",
    "decide_fence",
    "decide_node",
    "decide_request",
    "has_begun",
    "is_off",
    "is_same_boot",
    "policies_of",
    "proof_of",
]

VERIFY_S = 60.0
"""Seconds after which a fence in force is looked at again."""
RELEASE_PATIENCE_S = 300.0
"""So long, at the most, is a machine left off because something that it had is not released yet: pods may
tolerate that their node is out of service, and stay."""
RELEASE_LOOK_S = 2.0
LET_IN = "LetIn"
ROUND_PAUSE_S = 60.0
LONGEST_PAUSE_S = 600.0


class Begin(Enum):
    """What to do about a node."""

    NO = "No"  # nothing speaks for a fence
    HOLD = "Hold"  # it is lost, and a fence is not begun
    FENCE = "Fence"


class NodeDecision(Decision[Begin], frozen=True, gc=False):
    """Whether a node is to be fenced. `after`: seconds until that may change by itself; 0 if only a change
    does. `left`: for so many seconds more, at the most, does the reason hold that keeps it from being fenced;
    0 if that is not known. `policy`: the one that decides."""

    after: float = 0.0
    left: float = 0.0
    policy: str = ""


class Action(Enum):
    """What a fence does next."""

    FREEZE = "Freeze"  # write down whom it is about
    REFUSE = "Refuse"
    WAIT = "Wait"
    CANCEL = "Cancel"
    REOPEN = "Reopen"  # one that was cancelled
    ORDER = "Order"
    END_ROUND = "EndRound"
    RELEASE = "Release"
    WITHDRAW = "Withdraw"
    VERIFY = "Verify"
    STOP_RELEASING = "StopReleasing"  # its node may be let in
    LOOK_FOR_REST = "LookForRest"  # whether nothing is left there, live
    UNFENCE = "Unfence"  # of a mechanism
    CLOSE = "Close"  # it is over
    SETTLED = "Settled"


class FenceDecision(Decision[Action], frozen=True, gc=False):
    """What one NodeFence does next. `step`: the order; `after`: seconds until it is decided again; `left`: as
    a `NodeDecision` has it."""

    phase: str = ""
    step: Step | None = None
    after: float = 0.0
    left: float = 0.0


def decide_node(
    node: Node,
    policies: Sequence[FencePolicy],
    signals: Sequence[Signal],
    company: Company,
    stakes: Stakes,
    poll: Poll | None = None,
) -> NodeDecision:
    """Whether the node is to be fenced now. `policies`: those that select it. `poll`: what peers say; None
    if they are not asked."""
    if not policies:
        return _not(Begin.NO, Reason("NoPolicy", f"no FencePolicy covers node {node.name}"))
    if len(policies) > 1:
        names = ", ".join(sorted(each.name for each in policies))
        return _not(
            Begin.NO, Reason("PoliciesOverlap", f"several FencePolicies select node {node.name}: {names}")
        )
    policy = policies[0]
    lost = is_lost(signals, policy)
    if isinstance(lost, Held):
        return NodeDecision(Begin.NO, lost.reason, lost.after, policy=policy.name)
    if policy.spec.paused:
        reason = Reason("Paused", f"FencePolicy {policy.name} is paused: {policy.spec.paused}")
        return NodeDecision(Begin.HOLD, reason, policy=policy.name)
    if not policy.spec.ladder:
        reason = Reason("NoLadder", f"FencePolicy {policy.name} has no ladder: it names no mechanism")
        return NodeDecision(Begin.HOLD, reason, policy=policy.name)
    held = (
        storm(signals, policy, company)
        or not_worth(policy, stakes)
        or over_budget(loss_of(node, fencing=False), policy, company)
        or held_by_storage(node.name, policy, signals)
        or (held_by_peers(node.name, policy, poll) if poll is not None else None)
    )
    if held is not None:
        return NodeDecision(Begin.HOLD, held.reason, held.after, held.after, policy.name)
    return NodeDecision(Begin.FENCE, lost, policy=policy.name)


def decide_request(
    node: Node,
    policies: Sequence[FencePolicy],
    signals: Sequence[Signal],
    company: Company,
    poll: Poll | None = None,
) -> NodeDecision:
    """Whether a fence that another's detector has asked for may be begun now: its word stands for the
    policy's detectors and for the peers that it requires, and for nothing else of the policy."""
    asked = Reason("Requested", f"a fence of node {node.name} was asked for")
    if len(policies) != 1:
        return NodeDecision(Begin.FENCE, asked)
    return begins_now(asked, policies[0], signals, company, loss_of(node, fencing=False), poll)


def begins_now(
    asked: Reason,
    policy: FencePolicy,
    signals: Sequence[Signal],
    company: Company,
    node: Loss,
    poll: Poll | None,
) -> NodeDecision:
    """Whether a fence that is asked for may be begun, by what the policy says besides its detectors."""
    if policy.spec.paused:
        reason = Reason("Paused", f"FencePolicy {policy.name} is paused: {policy.spec.paused}")
        return NodeDecision(Begin.HOLD, reason, policy=policy.name)
    held = (
        storm(signals, policy, company)
        or over_budget(node, policy, company)
        or held_by_storage(node.node, policy, signals)
        or (held_by_peers(node.node, policy, poll, starts=False) if poll is not None else None)
    )
    if held is not None:
        return NodeDecision(Begin.HOLD, held.reason, held.after, held.after, policy.name)
    return NodeDecision(Begin.FENCE, asked, policy=policy.name)


def _not(action: Begin, reason: Reason) -> NodeDecision:
    return NodeDecision(action, reason)


# --- one fence


def decide_fence(
    fence: NodeFence,
    node: Node | None,
    ladder: Sequence[Rung],
    begin: NodeDecision | None,
    now: datetime,
    *,
    after_fence: str = "Leave",
    releases_pods: bool = False,
    rival: str = "",
    left: bool = False,
    records: Collection[str] | None = None,
) -> FenceDecision:
    """What the fence does next. `node`: the Node of that name now. `begin`: what `decide_node` says, None if
    a person or another's detector has asked for the fence. `ladder`: of the policy that covers the node.
    `releases_pods`: whether a fence of the storage removes pods. `rival`: another fence of the node that is
    not over. `left`: something that no other node may have meanwhile is there still; read only of a node
    whose Node is gone, or that is to be switched on again. `records`: the node's VolumeAttachments, by name;
    None if only another boot lets it in."""
    status, phase = fence.status, fence.status.phase or Phase.PENDING
    target = status.target
    if phase in Phase.OVER:
        return _over(fence, node, phase, begin)
    if target is None:
        return _freeze(fence, node, rival)
    proof = proof_of(fence)
    if proof is not None:
        letting_in = _letting_in(fence, target, node, proof, records)
        if letting_in is not None and letting_in.action is not Action.WAIT:
            return letting_in
        waits = letting_in.reason if letting_in is not None else None
        found = _in_force(
            fence, target, node, proof, now, after_fence, releases_pods=releases_pods, left=left, waits=waits
        )
        return replace(found, after=min(found.after, LOOK_S)) if waits is not None else found
    begun = has_begun(fence)
    if fence.deleting and not begun:
        return _do(Action.CLOSE, Phase.CANCELLED, "Deleted", "it was deleted before anything was done")
    if node is not None and not is_same_boot(node, target):
        phase = Phase.UNFENCED if begun else Phase.CANCELLED
        if is_another_machine(node, target):
            message = f"{_name_taken(target)}: whether that still runs is not known, and nothing is released"
            return _do(Action.CLOSE, phase, "AnotherMachine", message)
        message = f"node {target.node_name} has booted anew: what runs there now is not what was to be fenced"
        return _do(Action.CLOSE, phase, "AnotherBoot", message)
    if node is not None and out_of_service(node):
        message = f"node {target.node_name} was declared dead by a person"
        return _do(Action.WAIT, Phase.AWAITING_PERSON, "ConfirmedDead", message)
    outstanding = begun and not status.attempts[-1].outcome
    if (fence.spec.unfence or fence.deleting) and not outstanding:
        message = "it is to be taken back, and nothing has shown that it was in force"
        return _do(Action.CLOSE, Phase.CANCELLED, "TakenBack", message)
    if begin is not None and begin.action is Begin.NO and not outstanding:
        return _do(Action.CANCEL, Phase.CANCELLED, *begin.reason)
    if not begun and begin is not None and begin.action is Begin.HOLD:
        return _held(fence, begin)
    return _climb(fence, target, node, ladder, now)


def _held(fence: NodeFence, begin: NodeDecision) -> FenceDecision:
    """One that is not begun. What its peers have said stays written while they are asked anew, as they are
    after each restart."""
    status = fence.status
    if begin.reason.code == PEERS_ASKED and status.reason in (HEARD_BY_PEERS, PEERS_MISSING):
        said = Reason(status.reason, status.message)
        return FenceDecision(Action.WAIT, said, Phase.PENDING, after=begin.after)
    vetoed = begin.reason.code in (HEARD_BY_PEERS, SEEN_BY_STORAGE)
    left = 0.0 if vetoed else begin.left  # a veto is renewed all the time
    return FenceDecision(Action.WAIT, begin.reason, Phase.PENDING, after=begin.after, left=left)


def _over(fence: NodeFence, node: Node | None, phase: str, begin: NodeDecision | None) -> FenceDecision:
    """A fence that is over stays as a record; a node that is lost again in the boot of one that was
    cancelled, or that let it in in that boot, is fenced under the same name. One that was taken back stays
    so."""
    target = fence.status.target
    same = target is not None and (node is None or is_same_boot(node, target))
    if (
        (phase == Phase.CANCELLED or fence.status.let_in_at)
        and same
        and not (fence.deleting or fence.spec.unfence)
        and begin is not None
        and begin.action is not Begin.NO
    ):
        return FenceDecision(Action.REOPEN, begin.reason, Phase.PENDING, after=begin.after)
    reason = Reason(fence.status.reason or phase, fence.status.message)
    open_still = FINALIZER in fence.metadata.finalizers
    return FenceDecision(Action.CLOSE if open_still else Action.SETTLED, reason, phase)


def _freeze(fence: NodeFence, node: Node | None, rival: str) -> FenceDecision:
    spec = fence.spec
    if rival:
        message = f"node {spec.node_name} is being fenced already: NodeFence {rival}"
        return _do(Action.REFUSE, Phase.REFUSED, "AlreadyFenced", message)
    if fence.deleting:
        return _do(Action.CLOSE, Phase.CANCELLED, "Deleted", "it was deleted before anything was done")
    if node is None and not spec.node_uid:
        message = f"there is no node {spec.node_name}, and the request does not say which uid is meant"
        return _do(Action.REFUSE, Phase.REFUSED, "NoSuchNode", message)
    if node is not None and spec.node_uid not in ("", node.uid):
        message = f"node {spec.node_name} has uid {node.uid}, not {spec.node_uid}"
        return _do(Action.REFUSE, Phase.REFUSED, "AnotherNode", message)
    boot = node.status.node_info.boot_id if node is not None else ""
    if node is not None and spec.boot_id not in ("", boot):
        message = f"node {spec.node_name} shows boot {boot or '(none)'}, not {spec.boot_id}"
        return _do(Action.REFUSE, Phase.REFUSED, "AnotherBoot", message)
    if node is not None and not boot:
        message = f"node {spec.node_name} tells no boot ID: what a fence of it had cut off could not be told"
        return _do(Action.REFUSE, Phase.REFUSED, "NoBootID", message)
    return _do(
        Action.FREEZE, Phase.PENDING, "Requested", fence.spec.reason or f"node {spec.node_name} is lost"
    )


def _climb(
    fence: NodeFence, target: FenceTarget, node: Node | None, ladder: Sequence[Rung], now: datetime
) -> FenceDecision:
    status = fence.status
    where = f"node {target.node_name}"
    if not ladder:
        message = (
            f"no FencePolicy with a ladder covers {where}: if its machine is certainly off, {_advice(target)}"
        )
        return _do(Action.WAIT, Phase.AWAITING_PERSON, "NoLadder", message)
    step = next_step(ladder, status.attempts, status.round, fence.name)
    if step is not None and not status.round_ended_at:
        last = status.attempts[-1] if status.attempts else None
        before = f"; before it, {last.mechanism}: {last.message}" if last is not None and last.outcome else ""
        message = f"{where}: {step.mechanism} is ordered to cut it off{before}"
        return FenceDecision(Action.ORDER, Reason("Fencing", message), Phase.FENCING, step)
    last = status.attempts[-1]
    said = f"{last.mechanism}: {last.message}"
    message = f"no mechanism has shown that {where} is cut off (last, {said}); if it is surely off, {_advice(target)}"
    if not status.round_ended_at:
        return _do(Action.END_ROUND, Phase.AWAITING_PERSON, last.reason or "LadderEnded", message)
    left = pause_after(status.round) - (now - parse_time(status.round_ended_at)).total_seconds()
    if left > 0:
        reason = Reason(last.reason or "LadderEnded", message)
        return FenceDecision(Action.WAIT, reason, Phase.AWAITING_PERSON, after=left)
    again = next_step(ladder, (), status.round + 1, fence.name)
    return FenceDecision(
        Action.ORDER,
        Reason("FencingAgain", f"{where}: the ladder is begun again"),
        Phase.FENCING,
        again,
    )


def pause_after(round_: int) -> float:
    """Seconds from the end of a round in vain until the ladder is begun again."""
    return min(ROUND_PAUSE_S * 2.0 ** min(round_, 10), LONGEST_PAUSE_S)


def _advice(target: FenceTarget) -> str:
    return f"say so: mooring fence confirm {target.node_name}"


def has_begun(fence: NodeFence) -> bool:
    """Whether something was ordered in this round."""
    return any(each.round == fence.status.round for each in fence.status.attempts)


def is_same_boot(node: Node, target: FenceTarget) -> bool:
    """Whether the Node still shows the uid and the boot that the fence is about."""
    shown = (node.uid, node.status.node_info.boot_id)
    return shown == (target.node_uid, target.boot_id) and not is_another_machine(node, target)


def is_another_machine(node: Node, target: FenceTarget) -> bool:
    """Whether the Node is that of a machine which has taken the name of the one that the fence is about."""
    return are_two(machine_of(node), Machine(target.system_uuid, target.provider_id))


def _name_taken(target: FenceTarget) -> str:
    machine = target.system_uuid or target.provider_id
    return (
        f"another machine is node {target.node_name} now, and not the one that was to be fenced ({machine})"
    )


def _in_force(
    fence: NodeFence,
    target: FenceTarget,
    node: Node | None,
    proof: FenceAttempt,
    now: datetime,
    after_fence: str,
    *,
    releases_pods: bool,
    left: bool,
    waits: Reason | None,
) -> FenceDecision:
    """A fence that was shown to hold. `waits`: why it is not let in yet, though it answers."""
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
        return _do(Action.WITHDRAW, Phase.AWAITING_PERSON, "Contradicted", message)
    asked = fence.spec.unfence or fence.deleting
    if node is None and left and not (proof.absent or asked or status.power_on_at):
        message = (
            f"{where} was cut off ({proof.mechanism}) before its Node was deleted, which says nothing of a later boot: "
            "it is shown once more"
        )
        return _do(Action.REOPEN, Phase.PENDING, "NodeGone", message)
    if not status.released_at and not asked:
        if node is not None and node.ready != "Unknown":
            message = (
                f"{where} is cut off: {proof.message}; what it had is released as soon as the API does not show it as "
                "answering any more"
            )
            return FenceDecision(Action.WAIT, Reason("StillShown", message), Phase.FENCED, after=VERIFY_S)
        message = f"{where} is cut off: {proof.message}; {released}"
        return _do(Action.RELEASE, Phase.FENCED, "Fenced", message)
    wanted = asked or after_fence == "PowerOn"
    due = VERIFY_S - (now - parse_time(status.verified_at or proof.answered_at)).total_seconds()
    if left and wanted and not asked and is_off(proof) and status.released_at and not status.power_on_at:
        since = (now - parse_time(status.released_at)).total_seconds()
        if since < RELEASE_PATIENCE_S:
            message = f"{where} is cut off, and what it had is being released: it is switched on after that"
            action = Action.VERIFY if due <= 0 else Action.WAIT
            return FenceDecision(action, Reason("Releasing", message), Phase.FENCED, after=RELEASE_LOOK_S)
    if fence.deleting and node is None and is_off(proof):
        return _do(Action.CLOSE, Phase.UNFENCED, "NodeGone", f"{where} does not exist any more")
    if wanted and is_off(proof) and not status.power_on_at:
        return _do(Action.UNFENCE, Phase.FENCED, "SwitchedOn", f"{where} is switched on again")
    waits = waits or _waits_for(fence, target, proof, released, wanted)
    if due <= 0 or (proof.volumes and releases_pods != status.releases_pods):
        return FenceDecision(Action.VERIFY, waits, Phase.FENCED)
    return FenceDecision(Action.WAIT, waits, Phase.FENCED, after=due)


def _letting_in(
    fence: NodeFence,
    target: FenceTarget,
    node: Node | None,
    proof: FenceAttempt,
    records: Collection[str] | None,
) -> FenceDecision | None:
    """What is done so that a node which is shut out is let in, in the same boot; None if nothing is. What was
    written down once is gone through with: it stays true, and the order may have been given."""
    status, where = fence.status, f"node {target.node_name}"
    if node is None or not is_same_boot(node, target):
        return None
    if status.let_in_at:
        message = f"{where} has nothing left of what it was shut out of: {proof.mechanism} lets it in"
        if status.power_on_at:
            return _do(Action.CLOSE, Phase.UNFENCED, LET_IN, message)
        return _do(Action.UNFENCE, Phase.FENCED, LET_IN, message)
    message = f"{where} answers, and says that it has unmounted what it was shut out of: that is looked at"
    if status.letting_in:
        return _do(Action.LOOK_FOR_REST, Phase.FENCED, "LettingIn", message)
    if records is None or node.ready != "True" or not is_wanted(fence):
        return None
    held = what_is_left(target, proof, node, records)
    if held is not None:
        return FenceDecision(Action.WAIT, held.reason, Phase.FENCED)
    return _do(Action.STOP_RELEASING, Phase.FENCED, "LettingIn", message)


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
        return _do(
            Action.UNFENCE, Phase.FENCED, "NewBoot", f"{where} has booted anew: {proof.mechanism} lets it in"
        )
    boot = node.status.node_info.boot_id
    return _do(Action.CLOSE, Phase.UNFENCED, "NewBoot", f"{where} reports in another boot ({boot})")


def _replaced(fence: NodeFence, target: FenceTarget, proof: FenceAttempt) -> FenceDecision:
    """Another machine has taken the name. One that is shut out may run on, and stays so until a person asks
    for the end of that: no boot of another one shows that it has forgotten what it wanted to write."""
    asked = fence.spec.unfence or fence.deleting
    if is_off(proof) or fence.status.power_on_at:
        return _do(Action.CLOSE, Phase.UNFENCED, "AnotherMachine", _name_taken(target))
    if asked:
        message = f"{_name_taken(target)}: {proof.mechanism} lets that in, as it was asked for"
        return _do(Action.UNFENCE, Phase.FENCED, "AnotherMachine", message)
    advice = f"once it is certainly off or was started anew: mooring fence release {target.node_name}"
    message = f"{_name_taken(target)}: that stays shut out ({proof.mechanism}); {advice}"
    return FenceDecision(Action.WAIT, Reason("AnotherMachine", message), Phase.FENCED, after=VERIFY_S)


def _do(action: Action, phase: str, code: str, message: str) -> FenceDecision:
    return FenceDecision(action, Reason(code, message), phase)
