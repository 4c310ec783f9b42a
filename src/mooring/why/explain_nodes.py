"""Why a node is not usable."""

from __future__ import annotations

from mooring.controllers.fencing.keeping import Keep, decide_deletion, next_step, what_is_left
from mooring.kube.objects import Node
from mooring.kube.printable import counted
from mooring.kube.reason import Reason
from mooring.volumes.names import NAME_HELD
from mooring.volumes.out_of_service import TAINT, out_of_service, spent, taint_of
from mooring.why.cause import Cause, about, fine
from mooring.why.explain_fences import fence_of
from mooring.why.snapshot import Snapshot


def explain_node(node: Node, known: Snapshot) -> Cause:
    """Explains a node: if it does not answer, since when, and which statement about it is missing."""
    where = f"node {node.name}"
    if (waits := _deletion(node, known)) is not None:
        return waits
    if node.ready == "True" and taint_of(node) is not None:
        message = f"{where} answers, and still carries the out-of-service taint: no pod is placed there"
        step = f"if its machine is well: kubectl taint nodes {node.name} {TAINT}-"
        return Cause(about(node), Reason("OutOfServiceTaint", message), next_step=step)
    if (second := known.warning(node, NAME_HELD)) is not None:
        cleanup = f"kubectl delete event -n {second.namespace} {second.name}"
        step = f"give that machine a name of its own, or end its agent; when that is done: {cleanup}"
        reason = Reason(NAME_HELD, f"{where}: {second.message}")
        return Cause(about(node), reason, since=second.last_timestamp or "", next_step=step)
    if node.ready == "True" and (shut := fence_of(node.name, known)) is not None:
        reason = Reason("ShutOut", f"{where} answers, and a fence of it is not over")
        return Cause(about(node), reason).because(shut)
    if node.ready == "True" and not node.spec.unschedulable:
        pods = len(known.pods_on(node.name))
        attached = len(node.status.volumes_attached)
        run, are = "runs" if pods == 1 else "run", "is" if attached == 1 else "are"
        has = f"{counted(pods, 'pod')} {run} there, {counted(attached, 'volume')} {are} attached"
        return fine(node, f"{where} is ready; {has}", "Ready")
    if node.ready == "True":
        return Cause(
            about(node),
            Reason("Cordoned", f"{where} takes no new pods: it is cordoned"),
            next_step=f"when its maintenance is over: kubectl uncordon {node.name}",
        )
    condition = next((each for each in node.status.conditions if each.type == "Ready"), None)
    since = (condition.last_transition_time or "") if condition else ""
    if node.ready == "False":
        reason = Reason("NodeNotReady", f"{where} answers and says that it is not ready: {_message(node)}")
        return Cause(about(node), reason, since=since, next_step=f"kubectl describe node {node.name}")
    return _silent(node, since).because(fence_of(node.name, known))


def explain_absence(name: str, known: Snapshot) -> Cause:
    """Explains a node that something names, and that does not exist."""
    message = f"node {name} does not exist any more; whether its machine still runs is not known"
    step = f"if the machine is certainly off: mooring node confirm-dead {name}"
    gone = Cause(f"node/{name}", Reason("NodeGone", message), next_step=step)
    return gone.because(fence_of(name, known))


def _deletion(node: Node, known: Snapshot) -> Cause | None:
    """What its deletion waits for, where the controller `fencing` holds it; None if it does not."""
    left = what_is_left(node.name, node.uid, *known.held_by(node.name))
    decision = decide_deletion(node, left, covered=True)
    if decision.action is not Keep.WAIT:
        return None
    since = node.metadata.deletion_timestamp or ""
    held = Cause(about(node), decision.reason, since=since, next_step=next_step(node))
    return held.because(fence_of(node.name, known))


def _silent(node: Node, since: str) -> Cause:
    where, advice = (
        f"node {node.name}",
        f"make sure that its machine is off, then: mooring node confirm-dead {node.name}",
    )
    if out_of_service(node):
        message = f"{where} does not answer and was declared out of service: what it holds is being released"
        return Cause(about(node), Reason("OutOfService", message), since=since)
    if taint_of(node) is not None and spent(node):
        message = (
            f"{where} does not answer; its out-of-service taint is spent, because it has reported under it"
        )
        return Cause(about(node), Reason("TaintSpent", message), since=since, next_step=advice)
    message = f"{where} does not answer, and may still write to the volumes that it holds"
    return Cause(
        about(node), Reason("NodeNotAnswering", message), since=since, next_step=f"bring it back; or {advice}"
    )


def _message(node: Node) -> str:
    return (
        next((each.message for each in node.status.conditions if each.type == "Ready"), "")
        or "no reason given"
    )
