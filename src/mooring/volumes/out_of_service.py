"""When an operator's out-of-service taint releases a node's volumes and pods. One rule for every controller.

The taint `node.kubernetes.io/out-of-service` (NoExecute) is the operator's statement that the machine is shut
down. It counts only while the node's Ready is Unknown (with False an agent is alive and reports:
docs/protocol.md C10), and only if the node has not reported since the taint appeared: a taint under which the
node has reported is *spent* and must be set anew (C11). That has to come from the report itself: a controller
that stored it could be away at that moment.

Our agent states it: while it sees the taint, each of its status writes carries the annotation SEEN with the
taint's identity. For upstream's kubelets, the API server records in `managedFields` when they last wrote a
status. The taint was set at its `timeAdded`, or else when the spec's taints were last written, by the same
clock. If a controller has written the taints since, that time is unknown, and the taint counts as spent; so
it does where `managedFields` was cleared, and the node has ever reported.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mooring.kube.objects import ManagedFieldsEntry, Node, Taint
from mooring.kube.times import format_time
from mooring.volumes.names import RECONSTRUCTED

TAINT = "node.kubernetes.io/out-of-service"
SEEN = "mooring.dev/out-of-service-seen"
EFFECT = "NoExecute"
CONTROLLERS = ("kube-controller-manager", "cloud-controller-manager", "mooring")
"""Managers of fields that are neither a node's agent nor an operator."""


def taint_of(node: Node) -> Taint | None:
    """The out-of-service taint that the node carries, in force or spent."""
    return next((taint for taint in node.spec.taints if taint.key == TAINT and taint.effect == EFFECT), None)


def identity(taint: Taint) -> str:
    """Returns what distinguishes this taint from one set earlier or later: the time at which
    it was added, if known."""
    return taint.time_added or "true"


def spent(node: Node) -> bool:
    """Whether the node has reported under the taint that it carries."""
    taint = taint_of(node)
    if taint is None:
        return False
    if node.metadata.annotations.get(SEEN) == identity(taint):
        return True
    return RECONSTRUCTED not in node.metadata.annotations and _reported_since(node, taint)


def out_of_service(node: Node) -> bool:
    """Whether the taint is in force, so that what the node had may be released."""
    return taint_of(node) is not None and node.ready == "Unknown" and not spent(node)


def time_to_add(node: Node, now: datetime) -> str:
    """The `timeAdded` of a taint that is set by a write which carries this Node's resourceVersion.

    It is compared with reports: those of upstream's kubelets are stamped by the API server, whose clock is
    another one than ours. So it is the moment after the last of them, by that clock; the node is silent, and
    the next one is later. Our agent compares it for equality, and any time does."""
    reports = _reports(_others(node))
    if RECONSTRUCTED in node.metadata.annotations or not reports:
        return format_time(now)
    return format_time(max(reports) + timedelta(seconds=1))


def _others(node: Node) -> list[ManagedFieldsEntry]:
    return [each for each in node.metadata.managed_fields if each.time and each.manager not in CONTROLLERS]


def _reports(entries: list[ManagedFieldsEntry]) -> list[datetime]:
    return [
        datetime.fromisoformat(each.time) for each in entries if each.subresource == "status" and each.time
    ]


def _reported_since(node: Node, taint: Taint) -> bool:
    """Whether upstream's kubelet has written a status since the taint appeared, or may have."""
    others = _others(node)
    reports, appeared = _reports(others), taint.time_added or _written(others)
    if not reports:  # it never has; or what tells when is gone, as managedFields can be cleared
        return any(each.last_heartbeat_time for each in node.status.conditions)
    return appeared is None or max(reports) >= datetime.fromisoformat(appeared)


def _written(entries: list[ManagedFieldsEntry]) -> str | None:
    """Returns when the present taints were last written by a manager that is no controller;
    None if that is unknown."""
    return max(
        (each.time for each in entries if each.time and "f:taints" in each.fields_v1.spec), default=None
    )
