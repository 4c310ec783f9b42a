"""What the fence of a node waits for."""

from __future__ import annotations

from mooring.controllers.fencing.decide import Phase
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.reason import Reason
from mooring.why.cause import Cause, about
from mooring.why.snapshot import Snapshot


def explain_fence(fence: NodeFence, known: Snapshot) -> Cause:
    """Explains a fence, in the controller's own words: how far it is, what it waits for, what a person can
    do."""
    status, node = fence.status, fence.spec.node_name
    phase = status.phase or Phase.PENDING
    message = f"{phase}: {status.message or 'the controller `fencing` has not looked at it yet'}"
    step = {
        Phase.PENDING: f"if its machine is certainly off: mooring fence confirm {node}",
        Phase.AWAITING_PERSON: f"if its machine is certainly off: mooring fence confirm {node}; what the mechanisms "
        f"say now: mooring fence test {node}",
        Phase.FENCED: f"to have it back: mooring fence release {node}",
    }.get(phase, "")
    return Cause(
        about(fence),
        Reason(status.reason or phase, message),
        ok=phase in Phase.OVER,
        since=status.released_at or fence.metadata.creation_timestamp or "",
        next_step=step,
    )


def fence_of(node: str, known: Snapshot) -> Cause | None:
    """Why the node is, or is not yet, cut off; None if no fence of it is under way."""
    held = [each for each in known.fences.values() if each.spec.node_name == node]
    open_ones = [each for each in held if each.status.phase not in Phase.OVER]
    return explain_fence(open_ones[-1], known) if open_ones else None
