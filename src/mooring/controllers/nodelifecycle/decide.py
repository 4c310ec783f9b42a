"""When a node counts as not answering, which taints its condition calls for, when a pod must
go. Pure. Times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from mooring.kube.decision import Decision
from mooring.kube.objects import Node, Pod, Taint
from mooring.kube.reason import Reason
from mooring.kube.taints import matching

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
"""Condition of a node -> the taint that it has while the condition is true."""
OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURES.values())
OF_THE_AGENT = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that only the node's agent knows: Unknown while it does not answer."""
OS, ARCH = ("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")
"""Labels of nodes, and their former names, by which older pods still select."""


class Heartbeat(NamedTuple):
    """The last sign of life of a node: its content, and when (by this process's clock) it was first seen.

    Only changes count, never the node's own clock: clocks differ.
    """

    signs: tuple[str, ...]
    seen: float


_ANSWERS = Reason("NodeAnswers", "the node has given a sign of life within the grace period")
_TOLERATES = Reason("Tolerates", "the pod tolerates the taints of its node")


class NodeAction(Enum):
    """What to do about a Node's Ready condition."""

    WAIT = "Wait"  # it has answered within the grace period: look again when that ends
    SET_UNKNOWN = "SetUnknown"
    SETTLED = "Settled"


class NodeDecision(Decision[NodeAction], frozen=True, gc=False):
    """What to do about one Node. `after`: seconds until it is to be looked at again; 0 if a
    change of it will do."""

    after: float = 0.0


class PodAction(Enum):
    """What to do about a pod on a tainted node."""

    KEEP = "Keep"
    EVICT = "Evict"


class PodDecision(Decision[PodAction], frozen=True, gc=False):
    """What to do about one pod. `after`: EVICT it in so many seconds; 0: at once."""

    after: float = 0.0


def silent_for(heartbeat: Heartbeat, now: float) -> float:
    """Seconds since the node last gave a new sign of life."""
    return now - heartbeat.seen


def decide_node(node: Node, silence: float, grace_period: float) -> NodeDecision:
    """Whether the Node is to be set Ready=Unknown. `silence`: seconds since its last sign of life."""
    if silence < grace_period:
        return NodeDecision(NodeAction.WAIT, _ANSWERS, grace_period - silence)
    if node.ready == "Unknown" and node.status.conditions:
        return NodeDecision(
            NodeAction.SETTLED, Reason("NodeStatusUnknown", f"node {node.name} does not answer")
        )
    message = f"Node {node.name} has not renewed its lease or status for {grace_period:g} s"
    return NodeDecision(NodeAction.SET_UNKNOWN, Reason("NodeNotReady", message))


def decide_eviction(pod: Pod, ages: Mapping[Taint, float]) -> PodDecision:
    """Whether, and in how many seconds, the pod must go because of its node's NoExecute taints. `ages`: for
    how many seconds it has been under each of them."""
    after = evict_after(pod, ages)
    if after is None:
        return PodDecision(PodAction.KEEP, _TOLERATES)
    keys = ", ".join(taint.key for taint in ages)
    message = f"node {pod.spec.node_name} has taint {keys}"
    return PodDecision(PodAction.EVICT, Reason("TaintManagerEviction", message), after)


def lost_conditions(node: Node) -> list[str]:
    """Returns the conditions of a silent node that nothing is known of any more: Ready, and of the others
    those that the node has reported."""
    known = {each.type: each.status for each in node.status.conditions}
    return [each for each in OF_THE_AGENT if known.get(each, "Unknown") != "Unknown" or each == "Ready"]


def former_labels(node: Node) -> dict[str, str]:
    """Returns the labels under former names that the node lacks, or has with another value."""
    labels = node.metadata.labels
    pairs = [(former, labels[name]) for name, former in (OS, ARCH) if name in labels]
    return {former: value for former, value in pairs if labels.get(former) != value}


def has_reported(node: Node) -> bool:
    """Whether the node, or a controller, has said whether it is ready."""
    return any(each.type == "Ready" for each in node.status.conditions)


def evicts(taints: Iterable[Taint]) -> bool:
    """Whether one of the taints makes pods go because their node does not answer, or is not ready."""
    return any(each.key in (NOT_READY, UNREACHABLE) and each.effect == "NoExecute" for each in taints)


def wanted_taints(node: Node, *, evict: bool = True) -> list[tuple[str, str]]:
    """Returns the keys and effects of the taints that the node's state calls for. `evict`: whether its pods
    may be made to go."""
    taints: list[tuple[str, str]] = []
    if node.ready != "True":
        key = UNREACHABLE if node.ready == "Unknown" and has_reported(node) else NOT_READY
        taints += [(key, "NoSchedule"), *([(key, "NoExecute")] if evict and has_reported(node) else [])]
    if node.spec.unschedulable:
        taints.append((UNSCHEDULABLE, "NoSchedule"))
    true = {each.type for each in node.status.conditions if each.status == "True"}
    return taints + [(taint, "NoSchedule") for condition, taint in PRESSURES.items() if condition in true]


def taints_after(node: Node, stamp: str, *, evict: bool = True) -> list[Taint]:
    """Returns all taints as they should be: others' untouched, ours as wanted. A taint that
    stays keeps its first time. `evict`: whether the node's pods may be made to go."""
    wanted = wanted_taints(node, evict=evict)
    kept = [t for t in node.spec.taints if t.key not in OURS or (t.key, t.effect) in wanted]
    held = {(t.key, t.effect) for t in kept}
    return kept + [Taint(key=k, effect=e, time_added=stamp) for k, e in wanted if (k, e) not in held]


def evict_after(pod: Pod, ages: Mapping[Taint, float]) -> float | None:
    """Returns the seconds after which the pod must go because of NoExecute taints; 0: at once, None: never.
    Each taint counts by itself."""
    limits = [
        max(limit - age, 0.0)
        for taint, age in ages.items()
        if (limit := tolerated_for(pod, taint)) is not None
    ]
    return min(limits, default=None)


def tolerated_for(pod: Pod, taint: Taint) -> float | None:
    """Returns for how many seconds the pod tolerates the taint; 0: not at all, None: for ever. Of several
    tolerations the shortest counts."""
    tolerations = matching(pod, taint)
    if not tolerations:
        return 0.0
    seconds = [each.toleration_seconds for each in tolerations if each.toleration_seconds is not None]
    return float(max(0, min(seconds))) if seconds else None
