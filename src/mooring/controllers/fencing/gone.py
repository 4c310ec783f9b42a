"""Nodes whose Node object is gone, although something is attached there still. Pure.

A finalizer holds the Node of a policy (`keeping`). Where that was taken off, what a fence has to know of the
machine is left in the status of each FenceMechanism that had looked at it: uid and boot, who provides it, its
addresses, what each device had said, and which policy covered it. The deletion then counts as a request to
fence it, and as no more: nothing is released before a mechanism has shown that it is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.controllers.fencing.decide import has_begun
from mooring.controllers.fencing.deciding_nodes import begins_now
from mooring.controllers.fencing.decisions import Begin, NodeDecision
from mooring.controllers.fencing.detection import Company, Loss
from mooring.kube.objects.fencing import (
    FenceMechanism,
    FencePolicy,
    FenceTarget,
    MechanismNode,
    NodeFence,
)
from mooring.kube.reason import Reason
from mooring.volumes.node_fences import Phase

ABSENCE_S = 40.0
"""Seconds for which a Node must be absent before its machine is fenced: an agent that is alive has registered
anew by then."""


def last_known(node: str, mechanisms: Iterable[FenceMechanism]) -> MechanismNode | None:
    """What was last recorded of the node, under a policy."""
    found = [each for record in mechanisms for each in record.status.nodes if each.name == node]
    return max(found, key=lambda each: each.looked_at, default=None)


def target_then(fence: NodeFence, mechanisms: Iterable[FenceMechanism]) -> FenceTarget:
    """Whom a fence of a node is about whose Node is gone: of the uid and boot that it names, all that is
    recorded."""
    spec = fence.spec
    boot = (spec.node_name, spec.node_uid, spec.boot_id)
    said = {
        record.name: (
            each,
            {**each.identity, "state": each.state, "generation": str(record.metadata.generation)},
        )
        for record in mechanisms
        for each in record.status.nodes
        if record.status.observed_generation == record.metadata.generation
        and (each.name, each.node_uid, each.boot_id) == boot
    }
    whom = max((each for each, _ in said.values()), key=lambda each: each.looked_at, default=MechanismNode())
    return FenceTarget(
        node_name=spec.node_name,
        node_uid=spec.node_uid,
        boot_id=spec.boot_id,
        provider_id=whom.provider_id,
        system_uuid=whom.system_uuid,
        addresses=whom.addresses,
        identities={name: word for name, (_, word) in said.items()},
        absent=True,
    )


def policy_then(fence: NodeFence, mechanisms: Iterable[FenceMechanism]) -> str:
    """The FencePolicy that covered the node; "" if none did, or that was not recorded."""
    said = last_known(fence.spec.node_name, mechanisms)
    return said.policy if said is not None and said.node_uid == fence.spec.node_uid else ""


def decide_absent(
    fence: NodeFence, policy: FencePolicy | None, company: Company, left: Sequence[str], absent_for: float
) -> NodeDecision | None:
    """Whether a node may be fenced that has no Node any more. None where that is not the question: a person
    has ordered it, or it has begun. What another's detector has asked for needs no reason; all else of the
    policy holds it as well, and a Node that comes back at once has peers that can be asked. `policy`: the one
    that covered it. `left`: what it has still, in words. `absent_for`: seconds for which this process has
    seen no Node."""
    begun, asked_for = has_begun(fence) and fence.status.phase != Phase.CANCELLED, fence.spec.requested_by
    if fence.spec.override or begun or (asked_for and policy is None):
        return None
    gone = f"there is no Node {fence.spec.node_name} any more"
    if policy is None:
        message = f"{gone}, and no FencePolicy is known that covered it: it is not fenced by itself"
        return NodeDecision(Begin.NO, Reason("NodeGone", message))
    if not left and not asked_for:
        return NodeDecision(Begin.NO, Reason("NothingLeft", f"{gone}, and nothing is left there"))
    wait = ABSENCE_S - absent_for
    if wait > 0:
        reason = Reason("NodeDeleted", f"{gone}: it is fenced if it stays away")
        return NodeDecision(Begin.HOLD, reason, wait, wait, policy.name)
    why = f"{left[0]} is left there" if left else f"{asked_for} asked for its fence"
    asked = Reason("NodeDeleted", f"{gone}, and {why}")
    return begins_now(asked, policy, (), company, Loss(fence.spec.node_name, "", False, False), None)
