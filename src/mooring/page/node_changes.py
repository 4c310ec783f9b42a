"""What has changed about a Node that concerns others: its volumes, and what it is good for. Pure."""

from __future__ import annotations

from mooring.kube.objects import Node


def moved(old: Node | None, new: Node | None) -> set[str]:
    """The unique names that have come to or left a Node's two lists."""
    return (_in_use(old) ^ _in_use(new)) | (_attached(old) ^ _attached(new))


def _in_use(node: Node | None) -> set[str]:
    return set(node.status.volumes_in_use) if node is not None else set()


def _attached(node: Node | None) -> set[str]:
    return {each.name for each in node.status.volumes_attached} if node is not None else set()


def standing(node: Node | None) -> object:
    """What about a Node changes the explanation of what it holds. A heartbeat does not."""
    if node is None:
        return None
    spec, meta = node.spec, node.metadata
    conditions = [(c.type, c.status, c.last_transition_time) for c in node.status.conditions]
    return (
        meta.uid,
        meta.deletion_timestamp,
        spec.taints,
        spec.unschedulable,
        conditions,
        node.status.node_info,
    )
