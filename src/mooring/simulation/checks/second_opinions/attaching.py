"""What is decided about a volume's VolumeAttachments: docs/protocol.md, docs/attach-detach.md.

Of each node it is asked by itself whether its VolumeAttachment ends, is given up, or stays, and what it
lacks then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from mooring.controllers.attachdetach import controller
from mooring.controllers.attachdetach.state import (
    Action,
    Attachment,
    Demand,
    NodeState,
    VolumeDecision,
    VolumeState,
)
from mooring.kube.objects import Node
from mooring.simulation.checks.second_opinions.near_states import DECISIONS
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.releasing import (
    Verdict,
    is_of_another_machine,
    is_of_its_registration,
    lets_go,
    reported,
    shown_off,
    verdict_on,
)
from mooring.volumes.attachment_lock import Closed
from mooring.volumes.names import AWAITED, FORCE_DETACH_REPORT, FORCE_DETACH_SINCE, NODE_ABSENT_SINCE

Step = tuple[Action, str]
"""What to do, and the code of its reason."""


def decisions(answer: tuple[VolumeDecision, ...], state: VolumeState) -> Iterator[str]:
    """One for each node that has or wants the volume: first for those that have it."""
    held, wanting = state.attachments, state.demands
    if held and wanting:
        having = [each.node for each in held]
        wanting = tuple(each for each in wanting if each.node not in having)
    if [each.node for each in answer] != [each.node for each in (*held, *wanting)]:
        yield f"decided about {answer}, and not about {[each.node for each in (*held, *wanting)]}"
        return
    for attachment, decision in zip(held, answer, strict=False):
        yield from _of_attachment(decision, state, attachment)
    for demand, decision in zip(wanting, answer[len(held) :], strict=True):
        yield from _of_demand(decision, state, demand)


# --- nodes that have it


def _of_attachment(decision: VolumeDecision, state: VolumeState, held: Attachment) -> Iterator[str]:
    node, demand = state.nodes.get(held.node), wanted_on(state, held)
    pods = demand.pods if demand is not None else ()
    notes: tuple[tuple[str, str | None], ...] = ()
    after = 0.0
    if held.deleting or held.detached:  # it ends by itself
        step = (Action.WAIT, "Detached" if held.detached else "Detaching")
    elif not state.several_nodes and is_of_another_machine(node, held):  # theirs is another machine
        step, notes, after = _given_up(state, held, node)
    elif (notes := _to_erase(node, held, demand)) and not (held.marked and demand is None):
        step = (Action.NOTE, "NodeAnswers")
    elif demand is None:
        step, notes, after = _given_up(state, held, node)
    else:
        step, notes = _kept(state, held, node), ()
    got = (decision.action, decision.reason.code)
    if got != step:
        yield f"on {held.node}, which has it: {_named(got)}, and not {_named(step)}"
    elif (decision.pods, decision.notes) != (pods, notes) or abs(decision.after - after) > 1e-3:
        yield f"on {held.node}, {_named(got)}: {decision}, and not for {pods}, with {notes}, after {after} s"
    error = held.detach_error if held.deleting else held.attach_error
    if error and got[1] in ("Detaching", "Attaching") and error not in decision.reason.message:
        yield f"on {held.node}, {_named(got)}: the last error is {error!r}, and it is not said"


def wanted_on(state: VolumeState, held: Attachment) -> Demand | None:
    """Those of its pods there that want it. Where all of them are being deleted, and a fence has shown that
    their node cannot write, the pods stay, and want it no more."""
    demand: Demand | None = None
    for each in state.demands:
        if each.node == held.node:
            demand = each
    if demand is None or demand.starting or held.evidence is None:
        return demand
    node = state.nodes.get(held.node)
    verdict = verdict_on(node, held, state.terms)
    silent = node is not None and node.ready == "Unknown" and shown_off(node, held)
    shut_out = verdict.code == "Fenced" or (verdict.code == "NotInUse" and silent)
    return None if shut_out else demand


def _to_erase(
    node: NodeState | None, held: Attachment, demand: Demand | None
) -> tuple[tuple[str, str | None], ...]:
    """Timers that run although a pod wants the volume there; or although the node answers, or is there."""
    found: list[str] = []
    if demand is not None or (node is not None and node.ready in ("True", "False")):
        found += [FORCE_DETACH_SINCE] if held.force_since else []
        found += [FORCE_DETACH_REPORT] if held.force_report else []
    if held.absent_since and not (demand is None and node is None):
        found.append(NODE_ABSENT_SINCE)
    return tuple((name, None) for name in found)


def _given_up(
    state: VolumeState, held: Attachment, node: NodeState | None
) -> tuple[Step, tuple[tuple[str, str | None], ...], float]:
    """No pod wants it there. It is detached when it may be; until then the Node says that it has it."""
    verdict = verdict_on(node, held, state.terms)
    if verdict.action.name != "KEEP":
        return (Action.DETACH, verdict.code), (), 0.0
    if held.marked and node is not None:
        return (Action.RESTORE, verdict.code), (), 0.0
    if verdict.begin:
        stamp = f"{state.terms.now.isoformat(timespec='microseconds').removesuffix('+00:00')}Z"
        then = (FORCE_DETACH_REPORT, reported(node, held) or None)
        return (Action.NOTE, verdict.code), ((verdict.begin, stamp), then), 0.0
    return (_while_in_use(state, held, node, verdict), verdict.code), (), verdict.after


def _while_in_use(state: VolumeState, held: Attachment, node: NodeState | None, verdict: Verdict) -> Action:
    if verdict.code != "InUse" or node is None:
        return Action.BLOCKED
    granted = state.lock is not None and state.lock.epoch == held.epoch
    others = [each for each in state.attachments if not each.detached and each is not held]
    rightly = state.several_nodes or (granted and not others)
    is_shown = node.reported or not held.attached or held.marked
    return Action.WAIT if is_shown or not rightly or not is_of_its_registration(node, held) else Action.REPORT


def _kept(state: VolumeState, held: Attachment, node: NodeState | None) -> Step:
    """Pods want it there: what it lacks, in the order in which it is given."""
    first = first_of_several(state)
    if first is not None and first is not held:
        return (Action.DETACH, "SecondAttachment") if lets_go(node, held) else (Action.BLOCKED, "MultiAttach")
    if held.marked:
        return Action.RESTORE, "WantedAgain"
    ours = node is not None and is_of_its_registration(node, held)
    if node is not None and not ours and (node.reconstructed or node.in_use):
        return Action.RESTAMP, "NodeRegisteredAnew"
    if state.lock is None:
        return Action.BLOCKED, "LockDamaged"
    if held.epoch != state.lock.epoch and not state.several_nodes:
        if node is None:
            return Action.BLOCKED, "NodeGone"
        return (Action.BLOCKED, "ClosedNode") if is_closed(state, node) else (Action.GRANT, "StaleEpoch")
    if not held.attached:
        return Action.WAIT, "Attaching"
    to_report = node is not None and ours and not node.reported
    return Action.REPORT if to_report else Action.SETTLED, "Attached"


def first_of_several(state: VolumeState) -> Attachment | None:
    """Of several VolumeAttachments of an exclusive volume the one that stays (H4b): each preference leaves
    those that it is true of, if there are any."""
    if state.several_nodes or len(state.attachments) < 2:
        return None
    left = [each for each in state.attachments if not each.detached]
    if len(left) < 2:
        return None
    epoch = state.lock.epoch if state.lock is not None else None

    def says(what: str) -> Callable[[Attachment], bool]:
        return lambda each: bool(getattr(state.nodes.get(each.node), what, False))

    in_use = says("in_use")
    preferences: list[Callable[[Attachment], bool]] = [
        lambda each: each.epoch == epoch,
        says("reported"),
        lambda each: each.attached and in_use(each),
        lambda each: each.attached,
    ]
    for preferred in preferences:
        left = [each for each in left if preferred(each)] or left
    return min(left, key=lambda each: (each.created, each.name))


# --- nodes that want it


def _of_demand(decision: VolumeDecision, state: VolumeState, demand: Demand) -> Iterator[str]:
    against = next(_against(state, demand), None)
    step = against or (Action.ATTACH, "Wanted")
    got = (decision.action, decision.reason.code)
    if got != step:
        yield f"on {demand.node}, which wants it: {_named(got)}, and not {_named(step)}"
    elif (decision.pods, decision.notes, decision.after) != (demand.pods, (), 0.0):
        yield f"on {demand.node}, {_named(got)}: {decision}, for {demand.pods}"
    if got[1] == "MultiAttach":
        yield from _who_has_it(decision, state)


def _against(state: VolumeState, demand: Demand) -> Iterator[Step]:
    """All that keeps the volume from being attached there."""
    node = state.nodes.get(demand.node)
    if not demand.starting:
        yield Action.SETTLED, "PodEnding"
    if node is None:
        yield Action.BLOCKED, "NodeGone"
        return
    if not node.managed:
        yield Action.SETTLED, "NodeAttaches"
    if not state.several_nodes:
        rivals = [(each.since, each.node) for each in state.demands if each.starting]
        taken = any(not each.detached for each in state.attachments)
        if taken or any(rival < (demand.since, demand.node) for rival in rivals):
            yield Action.BLOCKED, "MultiAttach"
    if state.lock is None:
        yield Action.BLOCKED, "LockDamaged"
    if is_closed(state, node):
        yield Action.BLOCKED, "ClosedNode"


def _who_has_it(decision: VolumeDecision, state: VolumeState) -> Iterator[str]:
    """A pod's Event says for which pods another node has its volume: no others, and not that of a machine
    that has taken the name of the one that has it."""
    said = decision.reason.message
    for held in state.attachments:
        if held.detached:
            continue
        if f"node {held.node}" not in said:
            yield f"on {decision.node}: node {held.node} has it, and is not named: {said}"
        demand = wanted_on(state, held)
        another = is_of_another_machine(state.nodes.get(held.node), held)
        is_for = demand is not None and not another and not held.deleting
        words = f"node {held.node}, for {', '.join(demand.pods if demand is not None else ())}"
        if (words in said) != is_for:
            yield f"on {decision.node}: it is {'' if is_for else 'not '}attached to {words}: {said}"


def is_closed(state: VolumeState, node: NodeState) -> bool:
    """The volume was taken from the node by force, and it has not shown since that nothing of it is left
    (C16)."""
    closed = state.lock.closed.get(node.name) if state.lock is not None else None
    return closed is not None and not shows_nothing_left(closed, node.node, state.volume)


def shows_nothing_left(closed: Closed, node: Node | None, volume: str) -> bool:
    """It answers, and: it is another boot, or the volume is not in use there, or its agent says that a pod
    awaits it under an epoch since then, with nothing of it mounted."""
    if node is None or node.ready == "Unknown":
        return False
    boots = {closed.boot_id, node.status.node_info.boot_id}
    if "" not in boots and len(boots) == 2:
        return True
    return volume not in node.status.volumes_in_use or awaited_on(node).get(volume, -1) >= closed.epoch


def awaited_on(node: Node) -> dict[str, int]:
    """The epochs under which pods of the node await volumes, as its agent says."""
    try:
        read: Any = json.loads(node.metadata.annotations.get(AWAITED) or "{}")
    except ValueError:
        return {}
    found = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    return found if all(isinstance(each, int) for each in found.values()) else {}


def _named(step: Step) -> str:
    return f"{step[0].value} ({step[1]})"


QUESTIONS = (Question(controller, "decide", decisions, near=DECISIONS),)
