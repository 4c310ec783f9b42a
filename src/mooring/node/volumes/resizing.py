"""The node's part when a volume grows: its file system is grown to its device, while it is mounted; then the
claim's status says so.

The resizer asks for it by the claim's condition FileSystemResizePending. Claim and volume are read live: the
file system grows to what the storage has made, and the claim's status says the size that was reached.
"""

from __future__ import annotations

import structlog

from mooring.kube.client import Client
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.volumes.growth import (
    FILE_SYSTEM_RESIZE_PENDING,
    NODE_RESIZE_ERROR,
    NODE_RESIZE_INFEASIBLE,
    infeasible,
    is_asked_to_grow,
    is_infeasible,
    with_conditions,
)
from mooring.volumes.interfaces import NodeExpandableVolumePlugin
from mooring.volumes.matching import reserved_for
from mooring.volumes.spec import VolumeSpec

log = structlog.get_logger("node-agent")


async def grow_file_system(
    client: Client, plugin: NodeExpandableVolumePlugin, spec: VolumeSpec, device_mount_path: str
) -> str | None:
    """The new size if the file system was to grow and has; None if no claim asks for it."""
    pv = await client.find(PersistentVolume, spec.name)
    if pv is None or pv.spec.claim_ref is None or _is_another(pv, spec, plugin):
        return None
    reference = pv.spec.claim_ref
    claim = await client.find(PersistentVolumeClaim, reference.name, reference.namespace)
    if claim is None or not reserved_for(pv, claim) or not is_asked_to_grow(claim):
        return None
    try:
        await plugin.expand_fs(VolumeSpec.of_persistent_volume(pv), device_mount_path)
    except Exception as error:
        await _tell_if_infeasible(client, claim, error)
        raise
    status = {
        "capacity": dict(pv.spec.capacity),
        "conditions": with_conditions(claim),
        "allocatedResourceStatuses": {"storage": None},
    }
    await client.revise(claim, {"status": status}, subresource="status")
    size = str(pv.spec.capacity.get("storage", ""))
    log.info("file system grown", volume=spec.name, claim=claim.key, size=size, path=device_mount_path)
    return size


def _is_another(pv: PersistentVolume, mounted: VolumeSpec, plugin: NodeExpandableVolumePlugin) -> bool:
    """Whether the PersistentVolume was made anew for another disk than is mounted: its claim would be told
    that it has grown."""
    if mounted.persistent_volume is not None and pv.uid == mounted.persistent_volume.uid:
        return False
    return plugin.get_volume_name(VolumeSpec.of_persistent_volume(pv)) != plugin.get_volume_name(mounted)


async def _tell_if_infeasible(client: Client, claim: PersistentVolumeClaim, error: Exception) -> None:
    step = (FILE_SYSTEM_RESIZE_PENDING, NODE_RESIZE_ERROR, NODE_RESIZE_INFEASIBLE)
    status = infeasible(claim, *step, error, None) if is_infeasible(error) else None
    if status is not None:
        await client.revise(claim, {"status": status}, subresource="status")
