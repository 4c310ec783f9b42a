"""Which pods may be removed although no node agent says that they have ended. Pure.

Removing a pod object releases its identity: another pod of that name may start. So each reason names
who knows that the old pod does not run any more (docs/origins.md, pod safety): an operator's taint in
force, a fence of the Node that is gone, or its deletion where no fence of it is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import Node, Pod
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.reason import Reason
from mooring.volumes.node_fences import Phase, is_off, node_uid_of, proof_of
from mooring.volumes.out_of_service import out_of_service
from mooring.volumes.statements import statement_of

QUARANTINE_S = 40.0
"""Seconds for which a Node must be absent before its pods count as orphaned."""


MOST_ENDED = 12_500
"""Pods that have ended may stay, so many of them (upstream's --terminated-pod-gc-threshold)."""


class Fence(Enum):
    """What is known, by a fence, of a machine whose Node is gone."""

    NONE = "None"  # no fence of it is under way that says, or will say, something of the pod
    AWAITED = "Awaited"
    OFF = "Off"  # it has shown since then, or a person has said, that nothing of the machine runs


def fence_about(pod: Pod, fences: Iterable[NodeFence]) -> Fence:
    """What fences say of the pod's node, whose Node is gone. One that shows less than that the machine is off
    (its storage shuts it out) is waited for: processes run on, unless a person has stated otherwise on it.

    A pod that is younger than the fence (both times are the API server's) may have been bound to the
    registration that the fence is about, to another one, or to none, by a scheduler whose cache was late. As
    long as the fenced machine may run, it may run the pod. Once that is off, no fence is about the pod, and
    the deletion of the Node says of it what it says where there is none: another registration would have
    ended this fence, and its own deletion counts as any does. An agent that lives registers anew within
    QUARANTINE_S."""
    mine = [each for each in fences if each.spec.node_name == pod.spec.node_name]
    under_way = [each for each in mine if each.status.phase not in Phase.OVER]
    off, created = [each for each in under_way if _says_off(each)], pod.metadata.creation_timestamp or ""
    if any(created <= (each.metadata.creation_timestamp or "") for each in off):
        return Fence.OFF
    return Fence.NONE if len(off) == len(under_way) else Fence.AWAITED


def _says_off(fence: NodeFence) -> bool:
    """Whether it has shown, or a person has stated on it, that nothing of the machine runs: either after its
    Node was gone."""
    proof, stated = proof_of(fence), statement_of(fence)
    shown = proof is not None and is_off(proof) and proof.absent
    return shown or (stated is not None and stated.absent and stated.node_uid == node_uid_of(fence))


class Action(Enum):
    """What to do with a pod."""

    KEEP = "Keep"
    REMOVE = "Remove"


_WAITS_FOR_NODE = Decision(Action.KEEP, Reason("Unscheduled", "waits for a node"))
_KEPT_BY_NODE = Decision(Action.KEEP, Reason("NodeExists", "its node exists, and ends its own pods"))


def decide(
    pod: Pod, node: Node | None, *, deletion_confirms: bool = True, fence: Fence = Fence.NONE
) -> Decision[Action]:
    """Whether the pod may be removed. `node`: the Node that the pod names; None if it does not exist.
    `deletion_confirms`: the deletion of a Node states that nothing of its machine runs any more, unless a
    `fence` of it is under way: that is asked first."""
    if not pod.spec.node_name:
        if pod.deleting:
            return _remove("unscheduled", "is being deleted and was never scheduled")
        return _WAITS_FOR_NODE
    if node is None and fence is Fence.OFF:
        return _remove(
            "fenced",
            f"node {pod.spec.node_name} no longer exists, and its machine is off: its fence, or a person, says so",
        )
    if node is None and fence is Fence.AWAITED:
        return Decision(Action.KEEP, Reason("FenceAwaited", _awaited(pod.spec.node_name)))
    if node is None and not deletion_confirms:
        return Decision(Action.KEEP, Reason("NodeGone", _not_confirmed(pod.spec.node_name)))
    if node is None:
        return _remove("orphaned", f"node {pod.spec.node_name} no longer exists")
    if pod.deleting and out_of_service(node):
        return _remove("out-of-service", f"node {node.name} was declared out of service")
    return _KEPT_BY_NODE


def _awaited(node: str) -> str:
    return f"node {node} was deleted, and its fence is waited for: mooring fence list"


def _not_confirmed(node: str) -> str:
    return (
        f"node {node} was deleted, which says nothing of its machine here: if that is certainly off, "
        "kubectl delete pod --force"
    )


def surplus(ended: Sequence[Pod], most: int) -> list[Pod]:
    """Returns which ended pods to remove, beyond the number that may stay: those that were evicted first,
    then the oldest. 0: all may stay."""
    if most <= 0 or len(ended) <= most:
        return []
    oldest_first = sorted(ended, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name))
    return sorted(oldest_first, key=lambda pod: pod.status.reason != "Evicted")[: len(ended) - most]


def _remove(code: str, message: str) -> Decision[Action]:
    return Decision(Action.REMOVE, Reason(code, message))
