"""The live looks of a node agent: docs/protocol.md, "Mount".

What permits a mount is read in that very step: first the Node, then the VolumeAttachment, and then the lock,
on its PersistentVolume. What no look permits is not mounted; a mount is stale only by a look, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mooring.kube.client import Client
from mooring.kube.errors import Forbidden
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.node.volumes import handshake
from mooring.node.volumes.handshake import NotAttachedYet, Permission
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.server_requests import Mark, requests_since, starts
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.names import ATTACH_EPOCH, INLINE_VOLUME


def permitted(
    answer: Permission | NotAttachedYet,
    mark: Mark,
    client: Client,
    node_name: str,
    node_uid: str,
    boot_id: str,
    unique_name: str,
) -> Iterator[str]:
    """By the Node of this agent and boot, which has the volume in both of its lists; by the VolumeAttachment
    that is named; and by its lock's epoch, where it has a PersistentVolume."""
    read = {each.kind: each.answer for each in requests_since(mark, "get") if each.succeeded}
    node, record = read.get(Node), read.get(VolumeAttachment)
    listed = node is not None and (
        (node.metadata.uid, node.status.node_info.boot_id) == (node_uid, boot_id)
        and unique_name in node.status.volumes_in_use
        and unique_name in [each.name for each in node.status.volumes_attached]
    )
    if isinstance(answer, NotAttachedYet):
        if not listed and VolumeAttachment in read:
            yield f"{unique_name}: its VolumeAttachment is read, and Node {node_name} does not permit a mount"
        return
    if not listed:
        yield f"{unique_name} may be mounted on {node_name}, whose Node does not say so"
    if record is None or (record.metadata.uid, node_uid) != (answer.attachment_uid, answer.node_uid):
        yield f"{unique_name} may be mounted on {node_name} by another VolumeAttachment than was read"
        return
    source, notes = record.spec.source.persistent_volume_name, record.metadata.annotations
    if not source or INLINE_VOLUME in notes:
        return
    shown = requests_since(mark, "get", PersistentVolume, source)
    if not shown or not shown[-1].is_answered:
        yield f"{unique_name} may be mounted on {node_name}, and PersistentVolume {source} was not read"
    elif not int(notes.get(ATTACH_EPOCH, "0")) == answer.epoch == _epoch(shown[-1].answer):
        yield f"{unique_name} may be mounted on {node_name} under epoch {answer.epoch} of another lock"


def _epoch(shown: Any) -> int:
    """Of the lock on what was read; a volume that is gone, or was never locked, has none."""
    text = shown.metadata.annotations.get(ATTACHED_TO) if isinstance(shown, PersistentVolume) else None
    return json.loads(text).get("epoch", 0) if text else 0


def lost_its_ground(
    answer: bool | Forbidden, mark: Mark, client: Client, node_name: str, unique_name: str, uid: str
) -> Iterator[str]:
    """The VolumeAttachment under which it was mounted is gone; or it must not be read, and the Node does not
    list the volume: a node may read what is attached to it."""
    reads = {each.kind: each for each in requests_since(mark, "get")}
    record = reads[VolumeAttachment].answer if VolumeAttachment in reads else None
    if isinstance(record, Forbidden):
        node = reads[Node].answer if Node in reads else None
        listed = isinstance(node, Node) and unique_name in [
            each.name for each in node.status.volumes_attached
        ]
        expected = not listed
    else:
        expected = not isinstance(record, VolumeAttachment) or record.metadata.uid != uid
    if VolumeAttachment not in reads or (answer is True) is not expected:
        yield f"{unique_name} on {node_name}, by VolumeAttachment {uid}: {answer!r}, and {record} was read"


QUESTIONS = (
    Question(handshake, "look", permitted, before=starts, refusals=(NotAttachedYet,)),
    Question(handshake, "is_stale", lost_its_ground, before=starts, refusals=(Forbidden,)),
)
