"""What a request of an external health check asks of a node's fence, and what it is told of it. Pure.

The contract is that of medik8s' NodeHealthCheck (its docs, "Remediation Resources"): for a node that it finds
unhealthy, it makes a FenceRemediation of that node's name from a FenceRemediationTemplate, and deletes it
when the node is healthy; an annotation says that it does not wait for it any more. The conditions Processing
and Succeeded are what it reads.

Guarantees: such a request starts a fence and nothing else: the policy's pause, storms, budgets and vetoes
hold it, and what a node had is released by evidence alone. A fence that has shown that the node is cut off
stays, whatever becomes of the request, until the node has booted anew. A request takes back only the fence
that it has asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from mooring.controllers.fencing.names import fence_name
from mooring.kube.decision import Decision
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FencePolicy, FenceRemediation, NodeFence
from mooring.kube.reason import Reason
from mooring.volumes.node_fences import Phase

REMEDIATION_FINALIZER = "fencing.mooring.dev/remediation"
"""On a FenceRemediation: its fence is taken back, or in force, before the request is gone."""
NODE_NAME = "remediation.medik8s.io/node-name"
"""Names the node, where the request's own name is another (several requests about one node)."""
TIMED_OUT = "remediation.medik8s.io/nhc-timed-out"
"""The health check does not wait for this request any more, and may try another remedy."""


class Remedy(Enum):
    """What is done about a request."""

    HOLD = "Hold"  # with the finalizer
    ASK = "Ask"  # for a fence
    TAKE_BACK = "TakeBack"  # the fence that it has asked for
    LET_GO = "LetGo"  # the finalizer
    TELL = "Tell"  # nothing else


class RemedyDecision(Decision[Remedy], frozen=True, gc=False):
    """`fence`: the NodeFence that the request is about, or is to be; "" if there is none. `succeeded`: the
    status of that condition; Unknown while it is worked on."""

    fence: str = ""
    succeeded: str = "Unknown"


def node_of(remediation: FenceRemediation) -> str:
    """The node's name."""
    return remediation.metadata.annotations.get(NODE_NAME) or remediation.name


def fence_of(remediation: FenceRemediation, node: Node) -> str:
    """The name of the fence that this request asks for, of this registration of the node: the same however
    often it is asked for."""
    return fence_name(node.name, node.uid, remediation.uid)


def decide_remedy(
    remediation: FenceRemediation,
    node: Node | None,
    fences: Sequence[NodeFence],
    policies: Sequence[FencePolicy],
) -> RemedyDecision:
    """What is done about the request. `fences`: all that name its node; `policies`: those that select it."""
    fence = _about(remediation, node, fences)
    held = REMEDIATION_FINALIZER in remediation.metadata.finalizers
    if remediation.deleting:
        return _ending(remediation, fence, held=held)
    if not held:
        return _of(Remedy.HOLD, "Requested", "the request is taken up", fence)
    if fence is not None:
        return _followed(remediation, fence)
    if remediation.status.fence:
        message = f"NodeFence {remediation.status.fence} is gone: it was deleted by another"
        return _of(Remedy.TELL, "FenceGone", message, succeeded="False")
    if node is None:
        message = f"there is no node {node_of(remediation)}"
        return _of(Remedy.TELL, "NoSuchNode", message, succeeded="False")
    if TIMED_OUT in remediation.metadata.annotations:
        return _of(Remedy.TELL, "TimedOut", "the health check does not wait any more", succeeded="False")
    if len(policies) != 1:
        names = ", ".join(sorted(each.name for each in policies)) or "none"
        message = f"exactly one FencePolicy has to cover node {node.name}, and these do: {names}"
        return _of(Remedy.TELL, "NoPolicy", message, succeeded="False")
    message = f"a fence of node {node.name} is asked for"
    return RemedyDecision(Remedy.ASK, Reason("Requested", message), fence_of(remediation, node))


def _about(remediation: FenceRemediation, node: Node | None, fences: Sequence[NodeFence]) -> NodeFence | None:
    """The fence that the request goes by: its own, or one that was under way when it came."""
    own = fence_of(remediation, node) if node is not None else ""
    known = remediation.status.fence or own
    named = next((each for each in fences if each.name == known), None)
    if named is not None or remediation.status.fence:
        return named
    return next((each for each in fences if each.status.phase not in Phase.OVER), None)


def _is_own(remediation: FenceRemediation, fence: NodeFence) -> bool:
    return fence.name == fence_name(node_of(remediation), fence.spec.node_uid, remediation.uid)


def _may_take_back(remediation: FenceRemediation, fence: NodeFence | None) -> bool:
    if fence is None or not _is_own(remediation, fence) or fence.spec.unfence:
        return False
    return fence.status.phase not in (Phase.FENCED, *Phase.OVER)


def _ending(remediation: FenceRemediation, fence: NodeFence | None, *, held: bool) -> RemedyDecision:
    if held and _may_take_back(remediation, fence):
        return _of(Remedy.TAKE_BACK, "Deleted", "the request was deleted: its fence is taken back", fence)
    action = Remedy.LET_GO if held else Remedy.TELL
    return _of(action, "Deleted", "the request was deleted", fence)


def _followed(remediation: FenceRemediation, fence: NodeFence) -> RemedyDecision:
    phase, message = fence.status.phase or Phase.PENDING, fence.status.message
    if phase in (Phase.FENCED, Phase.UNFENCED):
        return _of(Remedy.TELL, phase, message, fence, succeeded="True")
    if phase in Phase.OVER:
        return _of(Remedy.TELL, fence.status.reason or phase, message, fence, succeeded="False")
    if TIMED_OUT in remediation.metadata.annotations:
        words = f"the health check does not wait any more: {message or phase}"
        action = Remedy.TAKE_BACK if _may_take_back(remediation, fence) else Remedy.TELL
        return _of(action, "TimedOut", words, fence, succeeded="False")
    if phase == Phase.AWAITING_PERSON:
        return _of(Remedy.TELL, fence.status.reason or phase, message, fence, succeeded="False")
    return _of(Remedy.TELL, fence.status.reason or phase, message or "the fence is made", fence)


def _of(
    action: Remedy, code: str, message: str, fence: NodeFence | None = None, *, succeeded: str = "Unknown"
) -> RemedyDecision:
    name = fence.name if fence is not None else ""
    return RemedyDecision(action, Reason(code, message), name, succeeded)
