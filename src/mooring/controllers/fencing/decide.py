"""What a fence does next, as pure functions over plain values. Whether a node is fenced is decided in
`deciding_nodes`.

The order of a fence never changes: the target is frozen; the order is written; the Node is read live; the
order is given; its answer is judged and written; what the node had is released, by a live read of the same
uid and boot; the fence is looked at again and again; it ends when another boot reports. Nothing here reads a
clock, an API or a mechanism.

- A fence is given up when the node answers, unless a person has asked for it, or boots anew. An order of
  which nothing is known may have happened: it is heard out first. One that has struck is in force, or, under
  another boot, taken back.
- A fence whose word is contradicted (a second source, or the node itself, which reports in the same boot)
  releases nothing, and what was released on it is withdrawn.
- A node that its storage shuts out is let in by another boot, or when nothing of the old attachments is left
  (`letting_in`): first nothing is released any more, then that is looked at live and written down, then the
  order is given.
- At the end of the ladder a person is asked, and after a while the ladder is begun again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from mooring.controllers.fencing.decisions import Action, Begin, FenceDecision, NodeDecision, do
from mooring.controllers.fencing.detection import HEARD_BY_PEERS, PEERS_ASKED, PEERS_MISSING, SEEN_BY_STORAGE
from mooring.controllers.fencing.in_force import in_force
from mooring.controllers.fencing.ladder import Step, doubtful, is_asked_for, name_for_tokens, next_step
from mooring.controllers.fencing.letting_in import LOOK_S, decide_letting_in
from mooring.controllers.fencing.names import FINALIZER
from mooring.controllers.fencing.same_boot import is_another_machine, is_same_boot, may_run_still, name_taken
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceTarget, NodeFence, Rung
from mooring.kube.reason import Reason
from mooring.volumes.node_fences import Phase, proof_of
from mooring.volumes.out_of_service import out_of_service

ROUND_PAUSE_S = 60.0
LONGEST_PAUSE_S = 600.0


def decide_fence(
    fence: NodeFence,
    node: Node | None,
    ladder: Sequence[Rung],
    begin: NodeDecision | None,
    ages: Mapping[str, float],
    *,
    after_fence: str = "Leave",
    releases_pods: bool = False,
    rival: str = "",
    left: bool = False,
    records: Collection[str] | None = None,
    may_strike: bool = False,
) -> FenceDecision:
    """What the fence does next. `node`: the Node of that name now. `begin`: what `decide_node` says, None if
    a person or another's detector has asked for the fence. `ladder`: of the policy that covers the node.
    `ages`: of times that the fence says, for how many seconds each is known. `releases_pods`: whether a fence
    of the storage removes pods. `rival`: another fence of the node that is not over. `left`: something that
    no other node may have meanwhile is there still; read only of a node whose Node is gone, or that is to be
    switched on again. `records`: the node's VolumeAttachments, by name; None if only another boot lets it in.
    `may_strike`: it is over, and an order of it may strike still."""
    status, phase = fence.status, fence.status.phase or Phase.PENDING
    target = status.target
    if phase in Phase.OVER:
        return _over(fence, node, phase, begin, may_strike=may_strike)
    if target is None:
        return _freeze(fence, node, rival)
    proof = proof_of(fence)
    if proof is not None:
        letting_in = decide_letting_in(fence, target, node, proof, records)
        if letting_in is not None and letting_in.action is not Action.WAIT:
            return letting_in
        waits = letting_in.reason if letting_in is not None else None
        found = in_force(
            fence, target, node, proof, ages, after_fence, releases_pods=releases_pods, left=left, waits=waits
        )
        return replace(found, after=min(found.after, LOOK_S)) if waits is not None else found
    begun = has_begun(fence)
    if fence.deleting and not begun:
        return do(Action.CLOSE, Phase.CANCELLED, Reason("Deleted", "it was deleted before anything was done"))
    taken_back, same = fence.spec.unfence or fence.deleting, may_run_still(fence, target, node)
    answers = begin is not None and begin.action is Begin.NO and begin.left <= 0
    unheard = doubtful(ladder, fence) if node is None or not is_another_machine(node, target) else None
    declared_dead = node is not None and same and out_of_service(node)
    if (taken_back or answers or not same) and not declared_dead and unheard is not None:
        message = (
            f"node {target.node_name}: whether {unheard.mechanism}'s order has struck is looked at first"
        )
        asked = _is_asked_still(fence, unheard, ages)
        return FenceDecision(Action.HEAR_OUT, Reason("HearingOut", message), Phase.FENCING, unheard, asked)
    if not same:
        phase = Phase.UNFENCED if begun else Phase.CANCELLED
        if node is not None and is_another_machine(node, target):
            message = f"{name_taken(target)}: whether that still runs is not known, and nothing is released"
            return do(Action.CLOSE, phase, Reason("AnotherMachine", message))
        message = f"node {target.node_name} has booted anew: what runs there now is not what was to be fenced"
        return do(Action.CLOSE, phase, Reason("AnotherBoot", message))
    if declared_dead:
        message = f"node {target.node_name} was declared dead by a person"
        return do(Action.WAIT, Phase.AWAITING_PERSON, Reason("ConfirmedDead", message))
    if taken_back:
        message = "it is to be taken back, and nothing has shown that it was in force"
        return do(Action.CLOSE, Phase.CANCELLED, Reason("TakenBack", message))
    if begin is not None and answers:
        return do(Action.CLOSE, Phase.CANCELLED, begin.reason)
    if not begun and begin is not None and begin.action is not Begin.FENCE:
        return _held(fence, begin)
    return _climb(fence, target, node, ladder, ages)


def _held(fence: NodeFence, begin: NodeDecision) -> FenceDecision:
    """One that is not begun. What was said stays written while it is asked anew, as it is after each restart:
    peers, and detectors that may say within a while that the node is lost."""
    status = fence.status
    asked_anew = begin.reason.code == PEERS_ASKED and status.reason in (HEARD_BY_PEERS, PEERS_MISSING)
    if asked_anew or begin.action is Begin.NO:
        said = Reason(status.reason, status.message)
        return FenceDecision(Action.WAIT, said, Phase.PENDING, after=begin.after)
    vetoed = begin.reason.code in (HEARD_BY_PEERS, SEEN_BY_STORAGE)
    left = 0.0 if vetoed else begin.left  # a veto is renewed all the time
    return FenceDecision(Action.WAIT, begin.reason, Phase.PENDING, after=begin.after, left=left)


def _over(
    fence: NodeFence, node: Node | None, phase: str, begin: NodeDecision | None, *, may_strike: bool
) -> FenceDecision:
    """A fence that is over stays as a record, as the budget counts its node, until its order cannot strike
    any more; a node that is lost again in the boot of one that was cancelled, or that let it in in that boot,
    is fenced under the same name. One that was taken back stays so."""
    target = fence.status.target
    same = target is not None and (node is None or is_same_boot(node, target))
    if may_be_reopened(fence, phase) and same and begin is not None and begin.action is not Begin.NO:
        return FenceDecision(Action.REOPEN, begin.reason, Phase.PENDING, after=begin.after)
    reason = Reason(fence.status.reason or phase, fence.status.message)
    if FINALIZER not in fence.metadata.finalizers:
        return FenceDecision(Action.SETTLED, reason, phase)
    return FenceDecision(Action.KEEP if may_strike else Action.LET_GO, reason, phase)


def may_be_reopened(fence: NodeFence, phase: str) -> bool:
    """Whether a fence that is over may be begun again under its name: only then is it asked whether the node
    is to be fenced. One whose boot was seen to be over stays so, also when its Node is gone."""
    status, given_up = fence.status, fence.deleting or fence.spec.unfence
    over = phase == Phase.CANCELLED and status.reason not in ("AnotherBoot", "AnotherMachine")
    return (over or bool(status.let_in_at)) and not given_up


def _freeze(fence: NodeFence, node: Node | None, rival: str) -> FenceDecision:
    spec = fence.spec
    if rival:
        message = f"node {spec.node_name} is being fenced already: NodeFence {rival}"
        return do(Action.CLOSE, Phase.REFUSED, Reason("AlreadyFenced", message))
    if fence.deleting:
        return do(Action.CLOSE, Phase.CANCELLED, Reason("Deleted", "it was deleted before anything was done"))
    if node is None and not spec.node_uid:
        message = f"there is no node {spec.node_name}, and the request does not say which uid is meant"
        return do(Action.CLOSE, Phase.REFUSED, Reason("NoSuchNode", message))
    if node is not None and spec.node_uid not in ("", node.uid):
        message = f"node {spec.node_name} has uid {node.uid}, not {spec.node_uid}"
        return do(Action.CLOSE, Phase.REFUSED, Reason("AnotherNode", message))
    boot = node.status.node_info.boot_id if node is not None else ""
    if node is not None and spec.boot_id not in ("", boot):
        message = f"node {spec.node_name} shows boot {boot or '(none)'}, not {spec.boot_id}"
        return do(Action.CLOSE, Phase.REFUSED, Reason("AnotherBoot", message))
    if node is not None and not boot:
        message = f"node {spec.node_name} tells no boot ID: what a fence of it had cut off could not be told"
        return do(Action.CLOSE, Phase.REFUSED, Reason("NoBootID", message))
    return do(
        Action.FREEZE,
        Phase.PENDING,
        Reason("Requested", fence.spec.reason or f"node {spec.node_name} is lost"),
    )


def _climb(
    fence: NodeFence,
    target: FenceTarget,
    node: Node | None,
    ladder: Sequence[Rung],
    ages: Mapping[str, float],
) -> FenceDecision:
    status = fence.status
    where = f"node {target.node_name}"
    if not ladder:
        message = f"no FencePolicy with a ladder covers {where}: {_advice(target, node)}"
        return do(Action.WAIT, Phase.AWAITING_PERSON, Reason("NoLadder", message))
    step = next_step(ladder, status.attempts, status.round, name_for_tokens(fence))
    if step is not None and not status.round_ended_at:
        last = status.attempts[-1] if status.attempts else None
        before = f"; before it, {last.mechanism}: {last.message}" if last is not None and last.outcome else ""
        message = f"{where}: {step.mechanism} is ordered to cut it off{before}"
        return FenceDecision(Action.ORDER, Reason("Fencing", message), Phase.FENCING, step)
    last = status.attempts[-1]
    said = f"{last.mechanism}: {last.message}"
    message = f"no mechanism has shown that {where} is cut off (last, {said}); {_advice(target, node)}"
    if not status.round_ended_at:
        return do(Action.END_ROUND, Phase.AWAITING_PERSON, Reason(last.reason or "LadderEnded", message))
    left = pause_after(status.round) - ages.get(status.round_ended_at, 0.0)
    if left > 0:
        reason = Reason(last.reason or "LadderEnded", message)
        return FenceDecision(Action.WAIT, reason, Phase.AWAITING_PERSON, after=left)
    again = next_step(ladder, (), status.round + 1, name_for_tokens(fence))
    return FenceDecision(
        Action.ORDER,
        Reason("FencingAgain", f"{where}: the ladder is begun again"),
        Phase.FENCING,
        again,
    )


def _is_asked_still(fence: NodeFence, step: Step, ages: Mapping[str, float]) -> float:
    """For how many seconds yet what came of the order is asked; 0: no longer."""
    attempt = next(each for each in fence.status.attempts if each.token == step.token)
    return max(is_asked_for(attempt) - ages.get(attempt.ordered_at, 0.0), 0.0)


def pause_after(round_: int) -> float:
    """Seconds from the end of a round in vain until the ladder is begun again."""
    return min(ROUND_PAUSE_S * 2.0 ** min(round_, 10), LONGEST_PAUSE_S)


def _advice(target: FenceTarget, node: Node | None) -> str:
    name = target.node_name
    if node is not None and node.ready == "True":
        return f"it answers; to take the fence back: mooring fence release {name}"
    return f"if its machine is certainly off, say so: mooring fence confirm {name}"


def has_begun(fence: NodeFence) -> bool:
    """Whether something was ordered in this round."""
    return any(each.round == fence.status.round for each in fence.status.attempts)
