"""What the fence of a node waits for."""

from __future__ import annotations

from mooring.controllers.fencing.decide import HEARD_BY_PEERS, SEEN_BY_STORAGE
from mooring.controllers.fencing.waits import kept_because, wait_of
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.reason import Reason
from mooring.kube.times import format_time
from mooring.volumes.node_fences import Phase, is_off, proof_of
from mooring.why.cause import Cause, about
from mooring.why.snapshot import Snapshot


def explain_fence(fence: NodeFence, known: Snapshot) -> Cause:
    """Explains a fence, in the controller's own words: how far it is, what it waits for, what a person can
    do."""
    status, node = fence.status, fence.spec.node_name
    phase = status.phase or Phase.PENDING
    message = f"{phase}: {status.message or 'the controller `fencing` has not looked at it yet'}"
    if fence.deleting and phase in Phase.OVER:
        message += f"; {kept_because(fence)}"
    wait = wait_of(fence)
    held = f"find out why the API server does not hear it; to cut it off nevertheless: mooring fence request {node}"
    step = {
        Phase.PENDING: held
        if status.reason in (HEARD_BY_PEERS, SEEN_BY_STORAGE)
        else f"if its machine is certainly off: mooring fence confirm {node}",
        Phase.AWAITING_PERSON: f"if its machine is certainly off: mooring fence confirm {node}; what the mechanisms "
        f"say now: mooring fence test {node}",
        Phase.FENCED: _in_force(fence),
    }.get(phase, "")
    return Cause(
        about(fence),
        Reason(status.reason or phase, message),
        ok=phase in Phase.OVER,
        since=status.released_at or fence.metadata.creation_timestamp or "",
        next_step=step,
        until=format_time(wait.until) if wait is not None else "",
        then=wait.what if wait is not None else "",
    )


def _in_force(fence: NodeFence) -> str:
    """What a person can do about a node that is cut off. Only power has shown that its processes are gone."""
    node, proof = fence.spec.node_name, proof_of(fence)
    if proof is None or is_off(proof):
        return f"to have it back: mooring fence release {node}"
    restart = "restart its machine: it is let in after a new boot"
    if fence.status.reason in ("StillMounted", "StillAttached"):
        return f"kubectl drain {node} --ignore-daemonsets; or {restart}"
    if fence.status.reason == "SessionsUnknown":
        return f"mooring fence test {node}; or {restart}"
    if proof.scope != "Storage" or not proof.volumes or fence.status.releases_pods:
        return restart
    return (
        f"{restart}; pods of StatefulSets stay until then, or until it is certainly off "
        f"(mooring fence confirm {node}), or until FencePolicy {fence.status.policy} has storageReleasesPods"
    )


def fence_of(node: str, known: Snapshot) -> Cause | None:
    """Why the node is, or is not yet, cut off; None if no fence of it is under way."""
    held = [each for each in known.fences.values() if each.spec.node_name == node]
    open_ones = [each for each in held if each.status.phase not in Phase.OVER]
    return explain_fence(open_ones[-1], known) if open_ones else None
