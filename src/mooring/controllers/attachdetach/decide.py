"""Every rule of attaching and detaching, as pure functions over plain values.

The input is one volume: the nodes whose pods want it, its VolumeAttachments, and what the Nodes say. The
output is one decision for each node concerned. The controller carries the decisions out, the simulation
checks them, and `mooring why` prints their reasons. Nothing here reads a clock, an API or a plugin.

The rules (docs/protocol.md has the schedule that each of them prevents):
- A VolumeAttachment keeps every other node from the volume, in whatever state it is. Exceptions: storage that
  lets several nodes write, and a volume that the storage has detached and that no outstanding request can
  attach there again. If there are two VolumeAttachments all the same (one was created late), the volume is
  reported to one node, and the other goes.
- A volume that no pod wants on a node is detached when the node says that it does not use it, and not before.
- A node that does not answer keeps its volumes until one of the rules of `release` permits a force detach.
- Where only a lock keeps a second node from the volume, a node that is closed for it is granted nothing.
- `release.may_release` is asked twice: on the cache, whether to begin; on the un-report's answer, whether to
  go on. Only the second result counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mooring.controllers.attachdetach.release import (
    Release,
    has_let_go,
    is_another_machine,
    is_fenced,
    is_same_node,
    may_release,
    report_of,
)
from mooring.controllers.attachdetach.state import (
    Action,
    Attachment,
    Demand,
    NodeState,
    Policy,
    Terms,
    VolumeDecision,
    VolumeState,
    demands_of,
    is_detached,
)
from mooring.kube.objects import Node
from mooring.kube.reason import Reason
from mooring.kube.times import format_micro_time
from mooring.volumes.attachment_lock import may_open
from mooring.volumes.names import FORCE_DETACH_REPORT, FORCE_DETACH_SINCE, NODE_ABSENT_SINCE

__all__ = [
    "Action",
    "Attachment",
    "Demand",
    "NodeState",
    "Policy",
    "Terms",
    "VolumeDecision",
    "VolumeState",
    "decide",
    "demands_of",
    "how_held",
    "is_detached",
    "may_release",
    "reported_volumes",
]


def decide(state: VolumeState) -> tuple[VolumeDecision, ...]:
    """Returns one decision for each node that wants or has the volume: first for those that have it."""
    wanted = {demand.node: demand for demand in state.demands if not _only_ends_fenced(state, demand)}
    held = {attachment.node for attachment in state.attachments}
    holder = _holder(state)
    decisions = [_about_attachment(state, each, wanted.get(each.node), holder) for each in state.attachments]
    first = _next_holder(state)
    decisions += [_about_demand(state, each, first) for each in state.demands if each.node not in held]
    return tuple(decisions)


def _only_ends_fenced(state: VolumeState, demand: Demand) -> bool:
    """Whether the pods that want the volume there are all being deleted, and a fence has shown that their
    node cannot write it: their processes may run still, so that the pods stay; the volume need not."""
    held = next((each for each in state.attachments if each.node == demand.node), None)
    if held is None or demand.starting:
        return False
    node = state.nodes.get(demand.node)
    verdict = may_release(node, held, state.terms)
    if verdict.forced:
        return verdict.reason.code == "Fenced"
    return verdict.allowed and node is not None and node.ready == "Unknown" and is_fenced(node, held)


def knows_its_mounts(node: NodeState) -> bool:
    """Whether a Node that was registered anew speaks for old mounts of the volume, too: its agent has looked
    for them (ours says so), or it has the volume in volumesInUse."""
    return node.reconstructed or node.in_use


def _about_attachment(
    state: VolumeState, attachment: Attachment, demand: Demand | None, holder: Attachment | None
) -> VolumeDecision:
    node = state.nodes.get(attachment.node)
    pods = demand.pods if demand else ()

    def decision(action: Action, code: str, message: str) -> VolumeDecision:
        return VolumeDecision(action, Reason(code, message), attachment.node, pods)

    if attachment.detached:
        later = "it may have it again when no request can be carried out late"
        return decision(Action.WAIT, "Detached", f"detached from node {attachment.node}; {later}")
    if attachment.deleting:
        return decision(
            Action.WAIT, "Detaching", f"being detached from node {attachment.node}{_because(attachment)}"
        )
    if node is not None and is_another_machine(node, attachment) and not state.several_nodes:
        return replace(_about_unwanted(state, attachment, node), pods=pods)  # theirs is another machine
    if (timers := _timers_to_erase(node, attachment, demand)) and not (attachment.marked and demand is None):
        reason = Reason("NodeAnswers", f"node {attachment.node} keeps it")
        return VolumeDecision(Action.NOTE, reason, attachment.node, pods, timers)
    if demand is None:
        return _about_unwanted(state, attachment, node)
    if holder is not attachment and holder is not None:
        return _about_second(state, attachment, node, demand, holder)
    if attachment.marked:
        return decision(
            Action.RESTORE, "WantedAgain", f"wanted again on node {attachment.node}: the detach is taken back"
        )
    if node is not None and not is_same_node(node, attachment) and knows_its_mounts(node):
        return decision(Action.RESTAMP, "NodeRegisteredAnew", f"node {attachment.node} has registered anew")
    if state.lock is None:
        return decision(Action.BLOCKED, "LockDamaged", "the lock on its PersistentVolume cannot be read")
    if attachment.epoch != state.lock.epoch and not state.several_nodes:
        return _grant(state, attachment, node, demand)
    if not attachment.attached:
        return decision(
            Action.WAIT, "Attaching", f"being attached to node {attachment.node}{_because(attachment)}"
        )
    if node is not None and not node.reported and is_same_node(node, attachment):
        return decision(Action.REPORT, "Attached", f"attached to node {attachment.node}; the node is told")
    return decision(Action.SETTLED, "Attached", f"attached to node {attachment.node}")


def _because(attachment: Attachment) -> str:
    error = attachment.detach_error if attachment.deleting else attachment.attach_error
    return f"; last error: {error}" if error else ""


def _timers_to_erase(
    node: NodeState | None, attachment: Attachment, demand: Demand | None
) -> tuple[tuple[str, str | None], ...]:
    """Returns the annotations of timers that run without reason: the volume is wanted again,
    or the node answers."""
    answers = node is not None and node.ready != "Unknown"
    running = {
        FORCE_DETACH_SINCE: attachment.force_since,
        FORCE_DETACH_REPORT: attachment.force_report,
        NODE_ABSENT_SINCE: attachment.absent_since,
    }
    over = {
        FORCE_DETACH_SINCE: demand is not None or answers,
        FORCE_DETACH_REPORT: demand is not None or answers,
        NODE_ABSENT_SINCE: demand is not None or node is not None,
    }
    return tuple((name, None) for name, since in running.items() if since and over[name])


def _about_unwanted(state: VolumeState, attachment: Attachment, node: NodeState | None) -> VolumeDecision:
    verdict = may_release(node, attachment, state.terms)
    reason = verdict.reason
    if verdict.action is not Release.KEEP:
        return VolumeDecision(Action.DETACH, reason, attachment.node)
    if node is not None and attachment.marked:
        return VolumeDecision(Action.RESTORE, reason, attachment.node)
    if verdict.begin:
        since = (verdict.begin, format_micro_time(state.terms.now))
        begun = (since, (FORCE_DETACH_REPORT, report_of(node, attachment) or None))
        return VolumeDecision(Action.NOTE, reason, attachment.node, notes=begun)
    if (
        node is not None
        and attachment.usable
        and not node.reported
        and reason.code == "InUse"
        and _may_report(state, node)
    ):
        return VolumeDecision(Action.REPORT, reason, attachment.node)
    action = Action.WAIT if reason.code == "InUse" else Action.BLOCKED
    return VolumeDecision(action, reason, attachment.node, after=verdict.after)


def _may_report(state: VolumeState, node: NodeState) -> bool:
    """Whether the volume may be reported again to a node that still uses it although no pod
    there wants it."""
    held = next(each for each in state.attachments if each.node == node.name)
    alone = state.several_nodes or len(state.holding) == 1
    current = state.lock is not None and held.epoch == state.lock.epoch
    return is_same_node(node, held) and alone and (current or state.several_nodes)


def _holder(state: VolumeState) -> Attachment | None:
    """Of several VolumeAttachments of one exclusive volume, the one whose node may have it;
    None if there are not several.

    The one under the lock's present epoch; else the one that was reported to its node; else the one that its
    node uses; else the one that the storage has attached; else the oldest.
    """
    if state.several_nodes or len(state.holding) < 2:
        return None

    def rank(each: Attachment) -> tuple[bool, bool, bool, bool, str, str]:
        node = state.nodes.get(each.node)
        granted = state.lock is not None and state.lock.epoch == each.epoch
        reported, in_use = node is not None and node.reported, node is not None and node.in_use
        return (
            not granted,
            not reported,
            not (each.attached and in_use),
            not each.attached,
            each.created,
            each.name,
        )

    return min(state.holding, key=rank)


def _about_second(
    state: VolumeState, attachment: Attachment, node: NodeState | None, demand: Demand, holder: Attachment
) -> VolumeDecision:
    """A second VolumeAttachment of an exclusive volume. It goes as soon as its node lets go,
    even if pods want it."""
    where = f"node {holder.node} has the volume, which is exclusive"
    if node is not None and has_let_go(node, attachment):
        return VolumeDecision(Action.DETACH, Reason("SecondAttachment", where), attachment.node, demand.pods)
    kept = f"{where}; that of node {attachment.node} is kept until it lets go"
    return VolumeDecision(Action.BLOCKED, Reason("MultiAttach", kept), attachment.node, demand.pods)


def _grant(
    state: VolumeState, attachment: Attachment, node: NodeState | None, demand: Demand
) -> VolumeDecision:
    """The only VolumeAttachment, of an older epoch: its node is granted the volume anew, if
    it is not closed for it."""
    if node is None:
        reason = Reason("NodeGone", f"node {attachment.node} does not exist")
        return VolumeDecision(Action.BLOCKED, reason, attachment.node, demand.pods)
    closed = _closed(state, node)
    if closed is not None:
        return VolumeDecision(Action.BLOCKED, closed, attachment.node, demand.pods)
    reason = Reason("StaleEpoch", f"the lock is granted to node {attachment.node} anew")
    return VolumeDecision(Action.GRANT, reason, attachment.node, demand.pods)


def _closed(state: VolumeState, node: NodeState) -> Reason | None:
    """Why the node is still closed for a volume that was taken from it by force; None if it may have it."""
    closed = state.lock.closed.get(node.name) if state.lock is not None else None
    if closed is None or may_open(closed, node.node, state.volume):
        return None
    message = f"the volume was taken from node {node.name} by force; its agent must say first that nothing is mounted"
    return Reason("ClosedNode", message)


def _next_holder(state: VolumeState) -> str | None:
    """Of the nodes that want a free exclusive volume, the one whose pod is oldest."""
    starting = [demand for demand in state.demands if demand.starting]
    return min(starting, key=lambda demand: (demand.since, demand.node)).node if starting else None


def _about_demand(state: VolumeState, demand: Demand, first: str | None) -> VolumeDecision:
    node = state.nodes.get(demand.node)

    def decision(action: Action, code: str, message: str) -> VolumeDecision:
        return VolumeDecision(action, Reason(code, message), demand.node, demand.pods)

    if not demand.starting:
        return decision(Action.SETTLED, "PodEnding", f"its pods on node {demand.node} are being deleted")
    if node is None:
        return decision(Action.BLOCKED, "NodeGone", f"node {demand.node} does not exist")
    if not node.managed:
        return decision(Action.SETTLED, "NodeAttaches", f"node {demand.node} attaches volumes itself")
    if not state.several_nodes:
        if state.holding:
            return decision(Action.BLOCKED, "MultiAttach", _held_elsewhere(state))
        if demand.node != first:
            return decision(
                Action.BLOCKED, "MultiAttach", f"pods on node {first} want it, too, and came first"
            )
    if state.lock is None:
        return decision(Action.BLOCKED, "LockDamaged", "the lock on its PersistentVolume cannot be read")
    closed = _closed(state, node)
    if closed is not None:
        return VolumeDecision(Action.BLOCKED, closed, demand.node, demand.pods)
    return decision(Action.ATTACH, "Wanted", f"wanted on node {demand.node} by {', '.join(demand.pods)}")


def _held_elsewhere(state: VolumeState) -> str:
    return "; ".join(how_held(state, attachment) for attachment in state.holding)


def how_held(state: VolumeState, attachment: Attachment) -> str:
    """Returns a sentence about what keeps the volume with the attachment's node."""
    demand = next((each for each in state.demands if each.node == attachment.node), None)
    node = state.nodes.get(attachment.node)
    another = node is not None and is_another_machine(node, attachment)
    if demand is not None and (another or _only_ends_fenced(state, demand)):
        demand = None
    if attachment.deleting:
        return f"it is being detached from node {attachment.node}{_because(attachment)}"
    if demand is not None:
        return f"it is exclusively attached to node {attachment.node}, for {', '.join(demand.pods)}"
    reason = may_release(node, attachment, state.terms).reason
    return f"it is exclusively attached to node {attachment.node}: {reason.message}"


def reported_volumes(
    node: Node, usable: Mapping[str, str], ours: Iterable[str], without: Iterable[str] = ()
) -> list[dict[str, str]]:
    """Returns `volumesAttached` as it should be: derived from the VolumeAttachments, never
    edited entry by entry.

    `usable` maps the volumes with a usable attachment on the node to their device paths. `ours` are all
    volume names on the node that this controller answers for; other entries are another controller's, and
    stay. `without` are left out.
    """
    answered_for = set(ours)
    kept = {e.name: e.device_path for e in node.status.volumes_attached if e.name not in answered_for}
    names = {**kept, **usable}
    for each in without:
        names.pop(each, None)
    return [{"name": name, "devicePath": names[name]} for name in sorted(names)]
