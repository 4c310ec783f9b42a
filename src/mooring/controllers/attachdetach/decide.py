"""Every rule of attaching and detaching, as pure functions over plain values.

For one volume: which nodes' pods want it, which VolumeAttachments exist, what the nodes say → one `Decision` for each
node that is concerned. The controller carries the decisions out; simulation checks them; `mooring why` prints their
reasons. Nothing here reads a clock, an API or a plugin.

The rules (design section 2; reference/protocol.md has the counterexample behind each):
- A VolumeAttachment blocks attachment elsewhere in every state, unless the storage lets several nodes write, or has
  detached it and nothing that was asked of it can attach it again. Where there are two all the same (one came late),
  one node is told of its own, and the other goes.
- A volume that no pod wants on a node is detached when the node says that it does not use it; while it says so, never.
- A node that does not answer keeps what it holds until somebody who knows says that it is dead (`release`).
- Where only a lock keeps a second node out, nothing is granted to a node that it is closed for.
- `may_release` is asked twice: of the cache, whether to begin; of the un-report's answer, whether to go on. Only the
  second answer counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.controllers.attachdetach.release import refused, release_silent
from mooring.controllers.attachdetach.state import (
    NO_POLICY,
    Action,
    Attachment,
    Decision,
    Demand,
    NodeState,
    Policy,
    Terms,
    Verdict,
    VolumeState,
    demands_of,
    is_detached,
)
from mooring.kube.objects import Node
from mooring.kube.reason import Reason
from mooring.kube.times import format_micro_time
from mooring.volumes.attachment_lock import may_open
from mooring.volumes.names import FORCE_DETACH_SINCE, NODE_ABSENT_SINCE

__all__ = [
    "Action",
    "Attachment",
    "Decision",
    "Demand",
    "NodeState",
    "Policy",
    "Terms",
    "Verdict",
    "VolumeState",
    "decide",
    "demands_of",
    "how_held",
    "is_detached",
    "is_same_node",
    "knows_its_mounts",
    "may_release",
    "reported_volumes",
]


def decide(state: VolumeState) -> tuple[Decision, ...]:
    """One decision for each node that wants or has the volume: those that have it first."""
    wanted = {demand.node: demand for demand in state.demands}
    held = {attachment.node for attachment in state.attachments}
    holder = _holder(state)
    decisions = [_about_attachment(state, each, wanted.get(each.node), holder) for each in state.attachments]
    first = _next_holder(state)
    decisions += [_about_demand(state, each, first) for each in state.demands if each.node not in held]
    return tuple(decisions)


def may_release(node: NodeState | None, attachment: Attachment, terms: Terms = NO_POLICY) -> Verdict:
    """Whether the node has let the volume go, or somebody may decide so in its place."""
    where = f"node {attachment.node}"
    if attachment.broken:
        return Verdict(True, True, Reason("Broken", f"broken on purpose: {attachment.broken}"))
    if node is None:
        return release_silent(node, attachment, terms)
    if _has_let_go(node, attachment):
        return Verdict(True, False, Reason("NotInUse", f"{where} does not use the volume"))
    if node.ready != "Unknown":
        return refused("InUse", f"{where} still uses the volume and has not unmounted it yet")
    return release_silent(node, attachment, terms)


def _has_let_go(node: NodeState, attachment: Attachment) -> bool:
    # A Node registered anew says nothing about old mounts until its agent has looked at them (protocol.md C13).
    return (is_same_node(node, attachment) or node.reconstructed) and not node.in_use


def is_same_node(node: NodeState, attachment: Attachment) -> bool:
    """Whether the Node is the one that the volume was attached to. One that is younger than the attachment is not."""
    if attachment.node_uid:
        return node.uid == attachment.node_uid
    return not attachment.created or node.created <= attachment.created


def knows_its_mounts(node: NodeState) -> bool:
    """Whether a Node registered anew speaks for old mounts of the volume, too: its agent has looked for them (ours says
    so), or it has the volume in volumesInUse, and so looks after it."""
    return node.reconstructed or node.in_use


def _about_attachment(
    state: VolumeState, attachment: Attachment, demand: Demand | None, holder: Attachment | None
) -> Decision:
    node = state.nodes.get(attachment.node)
    pods = demand.pods if demand else ()

    def so(action: Action, code: str, message: str) -> Decision:
        return Decision(action, attachment.node, Reason(code, message), pods)

    if attachment.detached:
        later = "it may have it again when no request can be carried out late"
        return so(Action.WAIT, "Detached", f"detached from node {attachment.node}; {later}")
    if attachment.deleting:
        return so(Action.WAIT, "Detaching", f"being detached from node {attachment.node}{_because(attachment)}")
    if (timers := _timers_to_erase(node, attachment, demand)) and not (attachment.marked and demand is None):
        return Decision(
            Action.NOTE, attachment.node, Reason("NodeAnswers", f"node {attachment.node} keeps it"), pods, timers
        )
    if demand is None:
        return _about_unwanted(state, attachment, node)
    if holder is not attachment and holder is not None:
        return _about_second(state, attachment, node, demand, holder)
    if attachment.marked:
        return so(Action.RESTORE, "WantedAgain", f"wanted again on node {attachment.node}: the detach is taken back")
    if node is not None and not is_same_node(node, attachment) and knows_its_mounts(node):
        return so(Action.RESTAMP, "NodeRegisteredAnew", f"node {attachment.node} has registered anew")
    if state.lock is None:
        return so(Action.BLOCKED, "LockDamaged", "the lock on its PersistentVolume cannot be read")
    if attachment.epoch != state.lock.epoch and not state.several_nodes:
        return _grant(state, attachment, node, demand)
    if not attachment.attached:
        return so(Action.WAIT, "Attaching", f"being attached to node {attachment.node}{_because(attachment)}")
    if node is not None and not node.reported and is_same_node(node, attachment):
        return so(Action.REPORT, "Attached", f"attached to node {attachment.node}; the node is told")
    return so(Action.SETTLED, "Attached", f"attached to node {attachment.node}")


def _because(attachment: Attachment) -> str:
    error = attachment.detach_error if attachment.deleting else attachment.attach_error
    return f"; last error: {error}" if error else ""


def _timers_to_erase(
    node: NodeState | None, attachment: Attachment, demand: Demand | None
) -> tuple[tuple[str, str | None], ...]:
    """Timers that have started, and whose ground is gone: the volume is wanted again, or the node answers."""
    answers = node is not None and node.ready != "Unknown"
    running = {FORCE_DETACH_SINCE: attachment.force_since, NODE_ABSENT_SINCE: attachment.absent_since}
    over = {
        FORCE_DETACH_SINCE: demand is not None or answers,
        NODE_ABSENT_SINCE: demand is not None or node is not None,
    }
    return tuple((name, None) for name, since in running.items() if since and over[name])


def _about_unwanted(state: VolumeState, attachment: Attachment, node: NodeState | None) -> Decision:
    verdict = may_release(node, attachment, state.terms)
    reason = verdict.reason
    if verdict.allowed or verdict.look:
        return Decision(Action.DETACH, attachment.node, reason)
    if node is not None and attachment.marked:
        return Decision(Action.RESTORE, attachment.node, reason)
    if verdict.begin:
        begun = ((verdict.begin, format_micro_time(state.terms.now)),)
        return Decision(Action.NOTE, attachment.node, reason, notes=begun)
    if node is not None and attachment.usable and not node.reported and reason.code == "InUse" and _told(state, node):
        return Decision(Action.REPORT, attachment.node, reason)
    return Decision(
        Action.WAIT if reason.code == "InUse" else Action.BLOCKED, attachment.node, reason, after=verdict.after
    )


def _told(state: VolumeState, node: NodeState) -> bool:
    """Whether a node that still uses what nobody wants there may be told again that it has it."""
    held = next(each for each in state.attachments if each.node == node.name)
    alone = state.several_nodes or len(state.holding) == 1
    current = state.lock is not None and held.epoch == state.lock.epoch
    return is_same_node(node, held) and alone and (current or state.several_nodes)


def _holder(state: VolumeState) -> Attachment | None:
    """Of several VolumeAttachments of one exclusive volume, whose node may have it; None if that is no question.

    The lock decides; without one, whoever was told of it, or uses it, or has it at the storage, then the oldest.
    """
    if state.several_nodes or len(state.holding) < 2:
        return None

    def rank(each: Attachment) -> tuple[bool, bool, bool, bool, str, str]:
        node = state.nodes.get(each.node)
        granted = state.lock is not None and state.lock.epoch == each.epoch
        reported, in_use = node is not None and node.reported, node is not None and node.in_use
        return (not granted, not reported, not (each.attached and in_use), not each.attached, each.created, each.name)

    return min(state.holding, key=rank)


def _about_second(
    state: VolumeState, attachment: Attachment, node: NodeState | None, demand: Demand, holder: Attachment
) -> Decision:
    """A VolumeAttachment that should not be: another node has the exclusive volume. It goes, in spite of its pods."""
    where = f"node {holder.node} has the volume, which is exclusive"
    if node is not None and _has_let_go(node, attachment):
        return Decision(Action.DETACH, attachment.node, Reason("SecondAttachment", where), demand.pods)
    kept = f"{where}; that of node {attachment.node} is kept until it lets go"
    return Decision(Action.BLOCKED, attachment.node, Reason("MultiAttach", kept), demand.pods)


def _grant(state: VolumeState, attachment: Attachment, node: NodeState | None, demand: Demand) -> Decision:
    """A VolumeAttachment of an older epoch, and the only one: its node is granted the volume anew."""
    if node is None:
        return Decision(
            Action.BLOCKED, attachment.node, Reason("NodeGone", f"node {attachment.node} does not exist"), demand.pods
        )
    closed = _closed(state, node)
    if closed is not None:
        return Decision(Action.BLOCKED, attachment.node, closed, demand.pods)
    reason = Reason("StaleEpoch", f"the lock is granted to node {attachment.node} anew")
    return Decision(Action.GRANT, attachment.node, reason, demand.pods)


def _closed(state: VolumeState, node: NodeState) -> Reason | None:
    """Why the node may not have the volume yet that was taken from it by force."""
    closed = state.lock.closed.get(node.name) if state.lock is not None else None
    if closed is None or may_open(closed, node.node, state.volume):
        return None
    message = f"the volume was taken from node {node.name} by force; its agent must say first that nothing is mounted"
    return Reason("ClosedNode", message)


def _next_holder(state: VolumeState) -> str | None:
    """Among nodes that want an exclusive volume which nobody has: the one whose pod is oldest."""
    starting = [demand for demand in state.demands if demand.starting]
    return min(starting, key=lambda demand: (demand.since, demand.node)).node if starting else None


def _about_demand(state: VolumeState, demand: Demand, first: str | None) -> Decision:
    node = state.nodes.get(demand.node)

    def so(action: Action, code: str, message: str) -> Decision:
        return Decision(action, demand.node, Reason(code, message), demand.pods)

    if not demand.starting:
        return so(Action.SETTLED, "PodEnding", f"its pods on node {demand.node} are being deleted")
    if node is None:
        return so(Action.BLOCKED, "NodeGone", f"node {demand.node} does not exist")
    if not node.managed:
        return so(Action.SETTLED, "NodeAttaches", f"node {demand.node} attaches volumes itself")
    if not state.several_nodes:
        if state.holding:
            return so(Action.BLOCKED, "MultiAttach", _held_elsewhere(state))
        if demand.node != first:
            return so(Action.BLOCKED, "MultiAttach", f"pods on node {first} want it, too, and came first")
    if state.lock is None:
        return so(Action.BLOCKED, "LockDamaged", "the lock on its PersistentVolume cannot be read")
    closed = _closed(state, node)
    if closed is not None:
        return Decision(Action.BLOCKED, demand.node, closed, demand.pods)
    return so(Action.ATTACH, "Wanted", f"wanted on node {demand.node} by {', '.join(demand.pods)}")


def _held_elsewhere(state: VolumeState) -> str:
    return "; ".join(how_held(state, attachment) for attachment in state.holding)


def how_held(state: VolumeState, attachment: Attachment) -> str:
    """How the volume is kept by an attachment, for people."""
    demand = next((each for each in state.demands if each.node == attachment.node), None)
    if attachment.deleting:
        return f"it is being detached from node {attachment.node}{_because(attachment)}"
    if demand is not None:
        return f"it is exclusively attached to node {attachment.node}, for {', '.join(demand.pods)}"
    reason = may_release(state.nodes.get(attachment.node), attachment, state.terms).reason
    return f"it is exclusively attached to node {attachment.node}: {reason.message}"


def reported_volumes(
    node: Node, usable: Mapping[str, str], ours: Iterable[str], without: Iterable[str] = ()
) -> list[dict[str, str]]:
    """`volumesAttached` as it should be: derived, never edited entry by entry.

    `usable` maps the volumes with a usable attachment on the node to their device paths; `ours` are all volume names
    on the node that this controller answers for: other entries are somebody else's and stay. `without` are left out.
    """
    answered_for = set(ours)
    kept = {e.name: e.device_path for e in node.status.volumes_attached if e.name not in answered_for}
    names = {**kept, **usable}
    for each in without:
        names.pop(each, None)
    return [{"name": name, "devicePath": names[name]} for name in sorted(names)]
