"""Which machine a Node is of, and whether two are one. Pure.

A Node's uid tells registrations apart, and its boot ID boots. A second machine that takes a node's name (an
instance that was made anew, a spare one, a clone) looks like a boot of the first, which may still run and
write: what one of them says, or what was shown of it, is nothing about the other. So the VolumeAttachment
records for which machine it was made.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from mooring.kube.objects import Node, VolumeAttachment
from mooring.volumes.names import NODE_MACHINE


class Machine(NamedTuple):
    """As its firmware names it (SMBIOS), and as its provider does; "" where that is not known."""

    system_uuid: str = ""
    provider_id: str = ""


def machine_of(node: Node) -> Machine:
    return Machine(node.status.node_info.system_uuid, node.spec.provider_id)


def recorded_machine(record: VolumeAttachment) -> Machine:
    """The machine that the VolumeAttachment was made for; of one that another controller has made, or an
    earlier version, nothing is known."""
    return machine_from(record.metadata.annotations.get(NODE_MACHINE, ""))


def machine_from(text: str) -> Machine:
    """What `machine_annotation` has written."""
    system_uuid, _, provider_id = text.partition(" ")
    return Machine(system_uuid, provider_id)


def machine_annotation(node: Node) -> dict[str, str]:
    """What a VolumeAttachment for the node records."""
    text = " ".join(machine_of(node))
    return {NODE_MACHINE: text} if text.strip() else {}


def are_two(one: Machine, other: Machine) -> bool:
    """Whether they are certainly two machines: something that both tell differs."""
    if one == other:
        return False
    told = one.system_uuid and other.system_uuid
    if told and not _same_uuid(one.system_uuid, other.system_uuid):
        return True
    return bool(one.provider_id and other.provider_id) and one.provider_id != other.provider_id


def _same_uuid(one: str, other: str) -> bool:
    """In either of the byte orders in which kernels have shown it. What is no UUID is compared as it is."""
    try:
        first, second = UUID(one), UUID(other)
    except ValueError:
        return one == other
    return second.bytes in (first.bytes, first.bytes_le)
