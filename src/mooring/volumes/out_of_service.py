"""When an operator's out-of-service taint releases what a node holds. One rule for every controller that asks.

The taint `node.kubernetes.io/out-of-service` (NoExecute) is the operator's word that the machine is shut down. It
counts only while the node's Ready is Unknown (False means: an agent is alive and reports), and only if the node has
not reported since the taint appeared: a taint under which the node has reported is *spent* and must be set anew
(design section 2, rule 2; protocol.md C10, C11). The agent itself says so: while it sees the taint, each of its status
writes carries the annotation SEEN with the taint's identity. A controller that noted it could be away at that moment.
"""

from __future__ import annotations

from mooring.kube.objects import Node, Taint

TAINT = "node.kubernetes.io/out-of-service"
SEEN = "mooring.dev/out-of-service-seen"
EFFECT = "NoExecute"


def taint_of(node: Node) -> Taint | None:
    """The out-of-service taint that the node carries, in force or spent."""
    return next((taint for taint in node.spec.taints if taint.key == TAINT and taint.effect == EFFECT), None)


def identity(taint: Taint) -> str:
    """What tells this taint from one set earlier or later: the time at which it was added, where that is known."""
    return taint.time_added or "true"


def spent(node: Node) -> bool:
    """The node has reported under the taint that it carries."""
    taint = taint_of(node)
    return taint is not None and node.metadata.annotations.get(SEEN) == identity(taint)


def out_of_service(node: Node) -> bool:
    """The taint is in force: what the node held may be released."""
    return taint_of(node) is not None and node.ready == "Unknown" and not spent(node)
