"""Whether a Node is still what a fence is about: the same registration, boot and machine. Pure."""

from __future__ import annotations

from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceTarget, NodeFence
from mooring.volumes.machines import Machine, are_two, machine_of


def is_same_boot(node: Node, target: FenceTarget) -> bool:
    """Whether the Node still shows the uid and the boot that the fence is about."""
    shown = (node.uid, node.status.node_info.boot_id)
    return shown == (target.node_uid, target.boot_id) and not is_another_machine(node, target)


def may_run_still(fence: NodeFence, target: FenceTarget, node: Node | None) -> bool:
    """Whether the boot that the fence is about may run still: the Node shows it, or is gone, and no other was
    seen to follow."""
    if node is None:
        return not fence.status.followed_by
    return is_same_boot(node, target)


def is_another_machine(node: Node, target: FenceTarget) -> bool:
    """Whether the Node is that of a machine which has taken the name of the one that the fence is about."""
    return are_two(machine_of(node), Machine(target.system_uuid, target.provider_id))


def name_taken(target: FenceTarget) -> str:
    machine = target.system_uuid or target.provider_id
    return (
        f"another machine is node {target.node_name} now, and not the one that was to be fenced ({machine})"
    )
