"""The node's live look before a mount: docs/protocol.md R5, C13, C14, C16.

First the Node: it must still be ours and of this boot, with the volume in both lists. Then the
VolumeAttachment: attached, and no detach begun. Then the PersistentVolume: if it has a lock, the
VolumeAttachment must be of its epoch. All are read live and in this order; a cache would not do.

A node may read only what belongs to it. Of a VolumeAttachment that does not exist the API server's Node
authorizer cannot know the node, so it answers Forbidden. Forbidden here therefore means: there is none, or
the server has not seen the objects yet. It never permits a mount.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.kube.client import Client
from mooring.kube.errors import Forbidden, NotFound
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.volumes.attachment_lock import epoch_of, is_current, lock_of
from mooring.volumes.interfaces import DEVICE_PATH, Attachment
from mooring.volumes.machines import are_two, machine_of, recorded_machine
from mooring.volumes.names import DETACHING, INLINE_VOLUME, split_volume_name, volume_attachment_name


class NotAttachedYet(Exception):
    """The live look does not permit a mount now; the message says what was seen. Not a failure: look again
    later."""


@dataclass(frozen=True)
class Permission:
    """What the live look saw: what the storage said of the attachment, and which attachment is now used."""

    attachment: Attachment
    attachment_uid: str
    node_uid: str
    epoch: int = 0
    """Of the lock, under which the volume was granted to this node; 0: it has none."""


def attachment_name(unique_name: str, node_name: str) -> str:
    """The name of the VolumeAttachment of this volume and node."""
    plugin, volume_name = split_volume_name(unique_name)
    return volume_attachment_name(plugin, volume_name, node_name)


async def look(client: Client, node_name: str, node_uid: str, boot_id: str, unique_name: str) -> Permission:
    """Permits the mount of the volume now, or raises `NotAttachedYet`."""
    node, device_path = await _look_at_node(client, node_name, node_uid, boot_id, unique_name)
    name = attachment_name(unique_name, node_name)
    try:
        attachment = await client.get(VolumeAttachment, name)
    except (Forbidden, NotFound):
        raise NotAttachedYet(f"VolumeAttachment {name} does not exist") from None
    problem = _problem(attachment, node)
    if problem:
        raise NotAttachedYet(f"VolumeAttachment {name} {problem}")
    await _look_at_lock(client, attachment)
    attached_as = {DEVICE_PATH: device_path, **attachment.status.attachment_metadata}
    return Permission(attached_as, attachment.uid, node_uid, epoch_of(attachment))


async def _look_at_lock(client: Client, attachment: VolumeAttachment) -> None:
    name = attachment.spec.source.persistent_volume_name
    if not name or INLINE_VOLUME in attachment.metadata.annotations:
        return
    try:
        persistent_volume = await client.find(PersistentVolume, name)
    except Forbidden:
        raise NotAttachedYet(
            f"it is attached as PersistentVolume {name}, which no pod of node {attachment.spec.node_name} uses: if two "
            "PersistentVolumes are of one disk, delete one of them"
        ) from None
    if not is_current(attachment, persistent_volume):
        raise NotAttachedYet(
            f"VolumeAttachment {attachment.name} is of epoch {epoch_of(attachment)}, but the lock of PersistentVolume "
            f"{name} is at epoch {lock_of(persistent_volume).epoch}: the volume was granted or taken since"
        )


async def is_stale(client: Client, node_name: str, unique_name: str, attachment_uid: str) -> bool:
    """Whether a mount made under the VolumeAttachment of that uid has lost its ground.

    Raises Forbidden if the VolumeAttachment cannot be read although the Node lists the volume: then nothing
    is known.
    """
    try:
        attachment = await client.find(VolumeAttachment, attachment_name(unique_name, node_name))
    except Forbidden:
        node = await client.find(Node, node_name)
        if node is not None and any(entry.name == unique_name for entry in node.status.volumes_attached):
            raise
        return True
    return attachment is None or attachment.uid != attachment_uid


async def _look_at_node(
    client: Client, node_name: str, node_uid: str, boot_id: str, unique_name: str
) -> tuple[Node, str]:
    try:
        node = await client.get(Node, node_name)
    except NotFound:
        raise NotAttachedYet(f"Node {node_name} does not exist any more") from None
    if node.uid != node_uid:
        raise NotAttachedYet(f"Node {node_name} was registered anew (uid {node.uid}, not {node_uid})")
    if node.status.node_info.boot_id != boot_id:
        raise NotAttachedYet(f"Node {node_name} is another agent's (boot {node.status.node_info.boot_id})")
    if unique_name not in node.status.volumes_in_use:
        raise NotAttachedYet(f"Node {node_name} does not have {unique_name} in volumesInUse")
    for entry in node.status.volumes_attached:
        if entry.name == unique_name:
            return node, entry.device_path
    raise NotAttachedYet(f"Node {node_name} does not have {unique_name} in volumesAttached")


def _problem(attachment: VolumeAttachment, node: Node) -> str:
    if attachment.spec.node_name != node.name:
        return f"is for node {attachment.spec.node_name}"
    if are_two(machine_of(node), recorded_machine(attachment)):
        return f"was made for another machine, which had the name {node.name} before"
    if not attachment.status.attached:
        return "is not attached"
    if DETACHING in attachment.metadata.annotations:
        return "is being detached"
    return "is being deleted" if attachment.deleting else ""
