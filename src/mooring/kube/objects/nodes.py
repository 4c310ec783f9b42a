"""Nodes, and selectors of nodes (core group)."""

from __future__ import annotations

import msgspec

from mooring.kube.objects.meta import (
    Condition,
    LabelSelectorRequirement,
    ManagedMeta,
    Object,
    Resource,
    Struct,
)


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Taint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    provider_id: str = msgspec.field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class AttachedVolume(Struct, frozen=True, omit_defaults=False):
    """One entry of `status.volumesAttached`: unique volume name and device path."""

    name: str = ""
    device_path: str = ""


class NodeSystemInfo(Struct, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")
    machine_id: str = msgspec.field(default="", name="machineID")
    system_uuid: str = msgspec.field(default="", name="systemUUID")


class NodeStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    addresses: tuple[dict[str, str], ...] = ()
    allocatable: dict[str, str | int] = {}
    capacity: dict[str, str | int] = {}


class Node(Object, frozen=True):
    RESOURCE = Resource("", "v1", "nodes", "Node", namespaced=False)
    metadata: ManagedMeta = ManagedMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> str:
        """The Ready condition: "True", "False" or "Unknown" (also when the condition is missing)."""
        return next((c.status for c in self.status.conditions if c.type == "Ready"), "Unknown")
