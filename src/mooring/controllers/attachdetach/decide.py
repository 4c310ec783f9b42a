"""Every rule of attaching and detaching, as pure functions over plain values.

For one volume: which nodes' pods want it, which VolumeAttachments exist, what the nodes say → one `Decision` for each
node that is concerned. The controller carries the decisions out; simulation checks them; `mooring why` prints their
reasons. Nothing here reads a clock, an API or a plugin.

The rules (design section 2; reference/protocol.md has the counterexample behind each):
- A VolumeAttachment blocks attachment elsewhere in every state, unless the storage lets several nodes write.
- A volume that no pod wants on a node is detached when the node says that it does not use it; while it says so, never.
- A node that does not answer keeps what it holds until somebody who knows says that it is dead: here an out-of-service
  taint in force. The deletion of a Node object alone releases nothing.
- `may_release` is asked twice: of the cache, whether to begin; of the un-report's answer, whether to go on. Only the
  second answer counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from mooring.kube.objects import Node, Pod, VolumeAttachment
from mooring.kube.reason import Reason
from mooring.volumes.names import CONTROLLER_MANAGED, DETACHING, NODE_UID, RECONSTRUCTED
from mooring.volumes.out_of_service import out_of_service, spent, taint_of


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods on one node that use the volume, oldest first ("namespace/name"). `since` is the oldest's creation time.

    `starting` is false when all of them are being deleted: they keep what they have, and get nothing new.
    """

    node: str
    pods: tuple[str, ...]
    since: str
    starting: bool


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a VolumeAttachment says. `marked`: a detach has begun; `deleting`: its deletion has been asked for."""

    name: str
    node: str
    attached: bool
    marked: bool
    deleting: bool
    node_uid: str
    attach_error: str
    detach_error: str

    @classmethod
    def of(cls, record: VolumeAttachment) -> Attachment:
        annotations, status = record.metadata.annotations, record.status
        return cls(
            name=record.name,
            node=record.spec.node_name,
            attached=status.attached,
            marked=DETACHING in annotations,
            deleting=record.deleting,
            node_uid=annotations.get(NODE_UID, ""),
            attach_error=status.attach_error.message if status.attach_error else "",
            detach_error=status.detach_error.message if status.detach_error else "",
        )

    @property
    def usable(self) -> bool:
        """A pod may mount: attached, and not on its way out. Only such an attachment is reported to the node."""
        return self.attached and not self.marked and not self.deleting


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a Node says about one volume. `reported`: in volumesAttached; `in_use`: in volumesInUse."""

    name: str
    uid: str
    ready: str
    managed: bool
    reconstructed: bool
    reported: bool
    in_use: bool
    tainted: bool
    taint_spent: bool
    out_of_service: bool

    @classmethod
    def of(cls, node: Node, volume: str) -> NodeState:
        return cls(
            name=node.name,
            uid=node.uid,
            ready=node.ready,
            managed=CONTROLLER_MANAGED in node.metadata.annotations,
            reconstructed=RECONSTRUCTED in node.metadata.annotations,
            reported=any(entry.name == volume for entry in node.status.volumes_attached),
            in_use=volume in node.status.volumes_in_use,
            tainted=taint_of(node) is not None,
            taint_spent=spent(node),
            out_of_service=out_of_service(node),
        )


@dataclass(frozen=True, slots=True)
class VolumeState:
    """All that is known of one volume. A node that is missing from `nodes` does not exist."""

    volume: str
    several_nodes: bool
    demands: tuple[Demand, ...]
    attachments: tuple[Attachment, ...]
    nodes: Mapping[str, NodeState]


def demands_of(users: Iterable[Pod]) -> tuple[Demand, ...]:
    """What the pods that use a volume want, by node. Pods without a node, and pods that have ended, want nothing."""
    by_node: dict[str, list[Pod]] = {}
    for pod in users:
        if pod.spec.node_name and not pod.finished:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    return tuple(_demand(node, pods) for node, pods in sorted(by_node.items()))


def _demand(node: str, pods: list[Pod]) -> Demand:
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
    return Demand(
        node=node,
        pods=tuple(pod.key for pod in pods),
        since=pods[0].metadata.creation_timestamp or "",
        starting=any(not pod.deleting for pod in pods),
    )


class Action(Enum):
    """What is to be done about a volume and a node."""

    ATTACH = "Attach"  # create the VolumeAttachment
    RESTORE = "Restore"  # take the mark of a detach that has begun away again
    RESTAMP = "Restamp"  # note that the node has been registered anew, and has looked at its mounts
    REPORT = "Report"  # put the volume into volumesAttached
    DETACH = "Detach"  # begin the handshake that ends with the VolumeAttachment's deletion
    WAIT = "Wait"  # somebody else is at work
    BLOCKED = "Blocked"  # nothing goes on until something outside changes
    SETTLED = "Settled"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one node, why, and which pods are concerned."""

    action: Action
    node: str
    reason: Reason
    pods: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """Whether the volume may be taken from the node. `forced`: against what the node last said."""

    allowed: bool
    forced: bool
    reason: Reason


def decide(state: VolumeState) -> tuple[Decision, ...]:
    """One decision for each node that wants or has the volume: those that have it first."""
    wanted = {demand.node: demand for demand in state.demands}
    held = {attachment.node for attachment in state.attachments}
    decisions = [_about_attachment(state, each, wanted.get(each.node)) for each in state.attachments]
    first = _next_holder(state)
    decisions += [_about_demand(state, each, first) for each in state.demands if each.node not in held]
    return tuple(decisions)


def may_release(node: NodeState | None, attachment: Attachment) -> Verdict:
    """Whether the node has let the volume go, or somebody may decide so in its place."""
    where = f"node {attachment.node}"
    if node is None:
        return _refused("NodeGone", f"{where} does not exist any more; whether its machine still writes is not known")
    if _has_let_go(node, attachment):
        return Verdict(True, False, Reason("NotInUse", f"{where} does not use the volume"))
    if node.ready != "Unknown":
        return _refused("InUse", f"{where} still uses the volume and has not unmounted it yet")
    if node.out_of_service:
        return Verdict(True, True, Reason("OutOfService", f"{where} was declared out of service"))
    if node.tainted and node.taint_spent:
        return _refused("TaintSpent", f"{where} has reported under its out-of-service taint: set the taint anew")
    advice = f"if the machine is certainly off, say so: mooring node confirm-dead {attachment.node}"
    return _refused("NodeNotAnswering", f"{where} does not answer and may still write; {advice}")


def _refused(code: str, message: str) -> Verdict:
    return Verdict(False, False, Reason(code, message))


def _has_let_go(node: NodeState, attachment: Attachment) -> bool:
    # A Node registered anew says nothing about old mounts until its agent has looked at them (protocol.md C13).
    same = not attachment.node_uid or node.uid == attachment.node_uid or node.reconstructed
    return same and not node.in_use


def _about_attachment(state: VolumeState, attachment: Attachment, demand: Demand | None) -> Decision:
    node = state.nodes.get(attachment.node)
    pods = demand.pods if demand else ()

    def so(action: Action, code: str, message: str) -> Decision:
        return Decision(action, attachment.node, Reason(code, message), pods)

    if attachment.deleting:
        return so(Action.WAIT, "Detaching", f"being detached from node {attachment.node}{_because(attachment)}")
    if demand is None:
        return _about_unwanted(attachment, node)
    if attachment.marked:
        return so(Action.RESTORE, "WantedAgain", f"wanted again on node {attachment.node}: the detach is taken back")
    if node is not None and attachment.node_uid and attachment.node_uid != node.uid and node.reconstructed:
        return so(Action.RESTAMP, "NodeRegisteredAnew", f"node {attachment.node} has registered anew")
    if not attachment.attached:
        return so(Action.WAIT, "Attaching", f"being attached to node {attachment.node}{_because(attachment)}")
    if node is not None and not node.reported:
        return so(Action.REPORT, "Attached", f"attached to node {attachment.node}; the node is told")
    return so(Action.SETTLED, "Attached", f"attached to node {attachment.node}")


def _because(attachment: Attachment) -> str:
    error = attachment.detach_error if attachment.deleting else attachment.attach_error
    return f"; last error: {error}" if error else ""


def _about_unwanted(attachment: Attachment, node: NodeState | None) -> Decision:
    allowed, _, reason = may_release(node, attachment)
    if allowed:
        return Decision(Action.DETACH, attachment.node, reason)
    if node is not None and attachment.marked:
        return Decision(Action.RESTORE, attachment.node, reason)
    if node is not None and attachment.usable and not node.reported and reason.code == "InUse":
        return Decision(Action.REPORT, attachment.node, reason)
    return Decision(Action.WAIT if reason.code == "InUse" else Action.BLOCKED, attachment.node, reason)


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
        if state.attachments:
            return so(Action.BLOCKED, "MultiAttach", _held_elsewhere(state))
        if demand.node != first:
            return so(Action.BLOCKED, "MultiAttach", f"pods on node {first} want it, too, and came first")
    return so(Action.ATTACH, "Wanted", f"wanted on node {demand.node} by {', '.join(demand.pods)}")


def _held_elsewhere(state: VolumeState) -> str:
    return "; ".join(_how_held(state, attachment) for attachment in state.attachments)


def _how_held(state: VolumeState, attachment: Attachment) -> str:
    demand = next((each for each in state.demands if each.node == attachment.node), None)
    if attachment.deleting:
        return f"it is being detached from node {attachment.node}{_because(attachment)}"
    if demand is not None:
        return f"it is exclusively attached to node {attachment.node}, for {', '.join(demand.pods)}"
    reason = may_release(state.nodes.get(attachment.node), attachment).reason
    return f"it is exclusively attached to node {attachment.node}: {reason.message}"


def reported_volumes(
    node: Node, usable: Mapping[str, str], ours: Iterable[str], without: str = ""
) -> list[dict[str, str]]:
    """`volumesAttached` as it should be: derived, never edited entry by entry.

    `usable` maps the volumes with a usable attachment on the node to their device paths; `ours` are all volume names
    on the node that this controller answers for: other entries are somebody else's and stay. `without` is left out.
    """
    answered_for = set(ours)
    kept = {e.name: e.device_path for e in node.status.volumes_attached if e.name not in answered_for}
    names = {**kept, **usable}
    names.pop(without, None)
    return [{"name": name, "devicePath": names[name]} for name in sorted(names)]
