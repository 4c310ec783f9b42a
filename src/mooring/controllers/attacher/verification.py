"""Asks the storage from time to time whether the volumes that are recorded as attached still are.

An error, or no answer, means "assume still attached". A volume that the storage says is not attached is
recorded so, and is attached again. Its VolumeAttachment stays, and keeps every other node from the volume.

Where the storage tells what the node needs, as `attach` does, that is recorded, too, if it differs: what the
storage took away unseen, a late attach may have given back at another device path. A node reads it before a
mount only, and looks whose device is there (`verify_device`); what it has mounted already is not touched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any

from mooring.kube.objects import VolumeAttachment
from mooring.volumes.errors import VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin, Attachment, BulkVolumeVerifier
from mooring.volumes.names import DETACHING
from mooring.volumes.spec import VolumeSpec

Recorded = Sequence[tuple[VolumeAttachment, VolumeSpec]]


def is_verified(record: VolumeAttachment, ours: Container[str]) -> bool:
    """Whether to ask about the VolumeAttachment: carried out here, attached, and not being detached. Pure."""
    stays = record.spec.attacher in ours and not record.deleting
    return stays and record.status.attached and DETACHING not in record.metadata.annotations


def correction(record: VolumeAttachment, said: bool | Attachment) -> dict[str, Any]:
    """Returns what the record's status should say instead, as a merge patch; empty if it is right. Pure."""
    if said is True or said == record.status.attachment_metadata:
        return {}
    if said is False:
        return {"attached": False}
    return {"attachmentMetadata": {**dict.fromkeys(record.status.attachment_metadata), **said}}


async def asked(
    plugin: AttachableVolumePlugin, recorded: Recorded, log: Any
) -> list[tuple[VolumeAttachment, bool | Attachment]]:
    """Returns what the storage says of each; those of which it says nothing are left out."""
    by_node: defaultdict[str, list[VolumeSpec]] = defaultdict(list)
    for record, spec in recorded:
        by_node[record.spec.node_name].append(spec)
    found = await _ask(plugin, by_node, log)
    answers = ((record, found.get(record.spec.node_name, {}).get(spec)) for record, spec in recorded)
    return [(record, said) for record, said in answers if said is not None]


async def _ask(
    plugin: AttachableVolumePlugin, by_node: Mapping[str, Sequence[VolumeSpec]], log: Any
) -> Mapping[str, Mapping[VolumeSpec, bool | Attachment]]:
    attacher = plugin.new_attacher()
    if plugin.supports_bulk_volume_verification() and isinstance(attacher, BulkVolumeVerifier):
        try:
            return await attacher.bulk_verify_volumes(by_node)
        except Exception as error:
            _not_answered(plugin, sorted(by_node), error, log)
            return {}
    answers: dict[str, Mapping[VolumeSpec, bool | Attachment]] = {}
    for node, specs in by_node.items():
        try:
            answers[node] = await attacher.volumes_are_attached(specs, node)
        except Exception as error:
            _not_answered(plugin, [node], error, log)
    return answers


def _not_answered(plugin: AttachableVolumePlugin, nodes: list[str], error: Exception, log: Any) -> None:
    known = isinstance(error, VolumeError)
    log.warning(
        "VolumesNotVerified",
        plugin=plugin.get_plugin_name(),
        nodes=nodes,
        error=str(error),
        exc_info=not known,
    )
