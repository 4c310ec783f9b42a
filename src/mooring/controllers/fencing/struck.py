"""Which nodes count in a budget: those that an order has struck, or may strike yet. Pure."""

from __future__ import annotations

from mooring.controllers.fencing.decide import has_begun
from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.controllers.fencing.silence import DEFAULT_DURATION_S
from mooring.fence.interface import Outcome
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceAttempt, NodeFence
from mooring.kube.times import parse_time
from mooring.volumes.node_fences import Phase, is_off, proof_of
from mooring.volumes.statements import last_report


def in_progress(fence: NodeFence) -> bool:
    """Whether something was ordered, and the node has not come back."""
    return fence.status.phase not in Phase.OVER and has_begun(fence)


def may_be_off(fence: NodeFence, node: Node | None, renewed: str = "") -> bool:
    """Whether something was ordered, and the node has not come back. That an order is taken back whose
    outcome is not known switches nothing on, nor does it that its fence waits to be begun once more: until
    the node has reported since, or gone on renewing its Lease, it may strike. `renewed`: the time of its last
    renewal, by the node's own clock; an agent that has nothing new to say reports every five minutes."""
    return explains(fence, node, renewed) or is_lost_again(fence, node)


def explains(fence: NodeFence, node: Node | None, renewed: str = "") -> bool:
    """Whether the node is silent because of an order, or may be. Of one that came back since, and is lost
    again, that is not known: it counts in the budget, and it is part of a storm, too."""
    if in_progress(fence):
        return True
    if node is None or fence.status.target is None or not fence.status.attempts:
        return False
    struck, last = _struck(fence), fence.status.attempts[-1]
    if struck is not None:
        return struck.report != "" and last_report(node) == struck.report and not _went_on(struck, renewed)
    return _runs_on(fence, node) and last_report(node) == last.report and not _went_on(last, renewed)


def is_lost_again(fence: NodeFence, node: Node | None) -> bool:
    """Whether the boot to which an order was given is silent, though that order was taken back."""
    if fence.status.phase != Phase.CANCELLED or node is None or node.ready != "Unknown":
        return False
    return bool(fence.status.attempts) and _struck(fence) is None and _runs_on(fence, node)


def _runs_on(fence: NodeFence, node: Node) -> bool:
    """Whether its last order was taken back, and the boot to which it was given runs still."""
    target = fence.status.target
    return target is not None and _given_up(fence) and is_same_boot(node, target)


def _went_on(order: FenceAttempt, renewed: str) -> bool:
    """Whether the node has renewed its Lease for a grace period since the order was answered. One renewal
    shows nothing: it may have been on its way when the order struck, and come in late."""
    if not order.renewed or not renewed:
        return False
    return (parse_time(renewed) - parse_time(order.renewed)).total_seconds() > DEFAULT_DURATION_S


def _given_up(fence: NodeFence) -> bool:
    """Whether its last order was taken back, and has not cut the node off as far as is known."""
    waits_anew = fence.status.phase == Phase.PENDING and fence.status.attempts[-1].outcome != Outcome.FENCED
    return fence.status.phase == Phase.CANCELLED or waits_anew


def _struck(fence: NodeFence) -> FenceAttempt | None:
    """The order that has struck the boot whose report stood there when it was answered, or may have: the
    machine was found to be off, or that is not known, and another boot reports than was meant."""
    proof, last = proof_of(fence), fence.status.attempts[-1]
    if proof is not None:
        return proof if is_off(proof) else None
    unknown = fence.status.phase == Phase.UNFENCED and last.outcome != Outcome.NOT_FENCED
    return last if unknown else None
