"""Which pods may be removed although no node agent says that they have ended. Pure.

Removing a pod object releases its identity: another pod of that name may start. So each reason names who knows that
the old one does not run any more (pod-safety document): an operator's taint in force, or the deletion of the Node.
"""

from __future__ import annotations

from mooring.kube.objects import Node, Pod
from mooring.kube.reason import Reason
from mooring.volumes.out_of_service import out_of_service

QUARANTINE_S = 40.0
"""A node must be absent for so long, in seconds, before its pods count as orphaned."""


def decide(pod: Pod, node: Node | None) -> Reason | None:
    """Why the pod may be removed; None if it must stay."""
    if not pod.spec.node_name:
        return Reason("unscheduled", "is being deleted and was never scheduled") if pod.deleting else None
    if node is None:
        return Reason("orphaned", f"node {pod.spec.node_name} no longer exists")
    if pod.deleting and out_of_service(node):
        return Reason("out-of-service", f"node {node.name} was declared out of service")
    return None
