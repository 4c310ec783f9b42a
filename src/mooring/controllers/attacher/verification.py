"""Asks the storage from time to time whether the volumes that are recorded as attached still are.

An error, or no answer, means "assume still attached". A volume that the storage says is not attached is
recorded so, and is attached again. Its VolumeAttachment stays, and keeps every other node from the volume.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any

from mooring.kube.objects import VolumeAttachment
from mooring.volumes.errors import VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin, BulkVolumeVerifier
from mooring.volumes.names import DETACHING
from mooring.volumes.spec import VolumeSpec

Recorded = Sequence[tuple[VolumeAttachment, VolumeSpec]]


def is_verified(record: VolumeAttachment, ours: Container[str]) -> bool:
    """Whether to ask about the VolumeAttachment: carried out here, attached, and not being detached. Pure."""
    stays = record.spec.attacher in ours and not record.deleting
    return stays and record.status.attached and DETACHING not in record.metadata.annotations


async def denied(plugin: AttachableVolumePlugin, recorded: Recorded, log: Any) -> list[VolumeAttachment]:
    """Returns the VolumeAttachments whose volumes the storage says are not attached."""
    by_node: defaultdict[str, list[VolumeSpec]] = defaultdict(list)
    for record, spec in recorded:
        by_node[record.spec.node_name].append(spec)
    found = await _ask(plugin, by_node, log)
    return [record for record, spec in recorded if found.get(record.spec.node_name, {}).get(spec) is False]


async def _ask(
    plugin: AttachableVolumePlugin, by_node: Mapping[str, Sequence[VolumeSpec]], log: Any
) -> Mapping[str, Mapping[VolumeSpec, bool]]:
    attacher = plugin.new_attacher()
    if plugin.supports_bulk_volume_verification() and isinstance(attacher, BulkVolumeVerifier):
        try:
            return await attacher.bulk_verify_volumes(by_node)
        except Exception as error:
            _not_answered(plugin, sorted(by_node), error, log)
            return {}
    answers: dict[str, Mapping[VolumeSpec, bool]] = {}
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
