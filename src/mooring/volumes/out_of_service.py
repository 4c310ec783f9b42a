"""When an operator's out-of-service taint releases what a node holds. One rule for every controller that asks.

The taint `node.kubernetes.io/out-of-service` (NoExecute) is the operator's word that the machine is shut down. It
counts only while the node's Ready is Unknown (False means: an agent is alive and reports), and only if the node has
not reported since the taint appeared: a taint under which the node has reported is *spent* and must be set anew
(design section 2, rule 2; protocol.md C10, C11). That must come from the report itself: a controller that noted it
could be away at that moment.

Our agent says so: while it sees the taint, each of its status writes carries the annotation SEEN with the taint's
identity. Of upstream's kubelets the API server notes in `managedFields` when they last wrote a status. When the taint
was set is its `timeAdded`, or when the spec's taints were last written, by the same clock; where a controller has
written them since, nobody knows, and the taint counts as spent.
"""

from __future__ import annotations

from datetime import datetime

from mooring.kube.objects import ManagedFieldsEntry, Node, Taint
from mooring.volumes.names import RECONSTRUCTED

TAINT = "node.kubernetes.io/out-of-service"
SEEN = "mooring.dev/out-of-service-seen"
EFFECT = "NoExecute"
CONTROLLERS = ("kube-controller-manager", "cloud-controller-manager", "mooring")
"""Managers of fields that are no node's agent, and no operator."""


def taint_of(node: Node) -> Taint | None:
    """The out-of-service taint that the node carries, in force or spent."""
    return next((taint for taint in node.spec.taints if taint.key == TAINT and taint.effect == EFFECT), None)


def identity(taint: Taint) -> str:
    """What tells this taint from one set earlier or later: the time at which it was added, where that is known."""
    return taint.time_added or "true"


def spent(node: Node) -> bool:
    """The node has reported under the taint that it carries."""
    taint = taint_of(node)
    if taint is None:
        return False
    if node.metadata.annotations.get(SEEN) == identity(taint):
        return True
    return RECONSTRUCTED not in node.metadata.annotations and _reported_since(node, taint)


def out_of_service(node: Node) -> bool:
    """The taint is in force: what the node held may be released."""
    return taint_of(node) is not None and node.ready == "Unknown" and not spent(node)


def _reported_since(node: Node, taint: Taint) -> bool:
    """Upstream's kubelet has written a status since the taint appeared, or that cannot be told."""
    others = [each for each in node.metadata.managed_fields if each.time and each.manager not in CONTROLLERS]
    reports = [each.time for each in others if each.subresource == "status" and each.time]
    appeared = taint.time_added or _written(others)
    if not reports:
        return False
    return appeared is None or max(map(datetime.fromisoformat, reports)) >= datetime.fromisoformat(appeared)


def _written(entries: list[ManagedFieldsEntry]) -> str | None:
    """When somebody who is no controller wrote the taints that there are now."""
    return max((each.time for each in entries if each.time and "f:taints" in each.fields_v1.spec), default=None)
