"""Whether a node is fenced: by the policy's detectors, or because another asks for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.controllers.fencing.decisions import Begin, NodeDecision
from mooring.controllers.fencing.detection import (
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
    storm,
)
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FencePolicy
from mooring.kube.reason import Reason


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
        return NodeDecision(Begin.NO, lost.reason, lost.after, lost.after, policy.name)
    if policy.spec.paused:
        reason = Reason("Paused", f"FencePolicy {policy.name} is paused: {policy.spec.paused}")
        return NodeDecision(Begin.HOLD, reason, policy=policy.name)
    if not policy.spec.ladder:
        reason = Reason("NoLadder", f"FencePolicy {policy.name} has no ladder: it names no mechanism")
        return NodeDecision(Begin.HOLD, reason, policy=policy.name)
    held = (
        storm(node.name, signals, policy, company)
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
        storm(node.node, signals, policy, company)
        or over_budget(node, policy, company)
        or held_by_storage(node.node, policy, signals)
        or (held_by_peers(node.node, policy, poll, starts=False) if poll is not None else None)
    )
    if held is not None:
        return NodeDecision(Begin.HOLD, held.reason, held.after, held.after, policy.name)
    return NodeDecision(Begin.FENCE, asked, policy=policy.name)


def _not(action: Begin, reason: Reason) -> NodeDecision:
    return NodeDecision(action, reason)
