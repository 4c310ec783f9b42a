"""Attaches disks to nodes, and mounts their devices there: `Attacher` and `Detacher` of `mooring.dev/disk`.

The delays of a disk are waited here: the first before a request takes effect, the second between
its effect and the answer. A request dies with the process that sent it: once that process is
gone, it takes no effect any more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import DeviceNotAttached, InvalidSpec, VolumeNotFound, WrongDevice
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DEVICE_PATH, Attacher, Attachment, BulkVolumeVerifier, Detacher
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_faults import meet_trouble
from mooring.volumes.plugins.disk_source import PLUGIN_NAME, disk_source
from mooring.volumes.spec import VolumeSpec

POLL_S = 0.02


class DiskAttacher(Attacher, Detacher, BulkVolumeVerifier):
    """One object for both directions. Controllers call attach, detach and the checks; nodes call the rest."""

    def __init__(self, array: DiskArray, host: VolumeHost) -> None:
        self._array = array
        self._host = host

    # --- on a controller

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        source = disk_source(spec)
        disk = await blocking(self._array.get, source.disk)
        if disk.exclusive != source.exclusive:
            raise InvalidSpec(
                f"volume {spec.name} says exclusive: {str(source.exclusive).lower()}, but its disk {source.disk} has "
                f"exclusive: {str(disk.exclusive).lower()}. Correct the option in flexVolume.options"
            )
        return {DEVICE_PATH: await attach_disk(self._array, source.disk, node_name)}

    async def detach(self, volume_name: str, node_name: str) -> None:
        await detach_disk(self._array, volume_name, node_name)

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool]:
        return (await self.bulk_verify_volumes({node_name: specs}))[node_name]

    async def bulk_verify_volumes(
        self, volumes_by_node: Mapping[str, Sequence[VolumeSpec]]
    ) -> Mapping[str, Mapping[VolumeSpec, bool]]:
        truth = await blocking(self._array.attachments)
        return {
            node: {spec: node in truth.get(disk_source(spec).disk, ()) for spec in specs}
            for node, specs in volumes_by_node.items()
        }

    # --- on a node

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        disk, node = disk_source(spec).disk, self._host.node_name
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self._array.device(disk, node) is None:
            if asyncio.get_running_loop().time() >= deadline:
                raise DeviceNotAttached(
                    f"the device of volume {spec.name} (disk {disk}) did not appear on node {node} at "
                    f"{self._array.device_path(disk, node)} within {timeout_s:g} s"
                )
            await asyncio.sleep(POLL_S)
        return self._array.device_path(disk, node)

    async def verify_device(self, spec: VolumeSpec, device_path: str) -> None:
        disk = disk_source(spec).disk
        if not self._array.shows(device_path, disk):
            raise WrongDevice(
                f"{device_path} ({os.path.realpath(device_path)}) is not a device of disk {disk}, volume {spec.name}. "
                f"It must not be mounted"
            )

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(device_mount_directory(self._host) / disk_source(spec).disk)

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        source = disk_source(spec)
        device = os.path.realpath(device_path)  # from here on, whatever becomes of the link
        await self.verify_device(spec, device)
        if os.path.isdir(device):
            await self._host.mounts.bind_mount(device, device_mount_path, source.read_only)
            return
        options = (*spec.mount_options, *(("ro",) if source.read_only else ()))
        await self._host.mounts.format_and_mount(device, device_mount_path, source.fs_type, options)

    async def unmount_device(self, device_mount_path: str) -> None:
        await self._host.mounts.remove_mount_point(device_mount_path)


async def attach_disk(array: DiskArray, disk: str, node: str) -> str:
    """Attaches the disk, which takes as long as its record says, and returns its device's path on the node.
    Idempotent. Raises VolumeNotFound, VolumeInUse, DiskTrouble."""
    record = await blocking(array.check_attach, disk, node)
    await meet_trouble(array, disk, "attach")
    new = node not in record.nodes
    await asyncio.sleep(record.delays.attach if new else 0)
    path = await blocking(array.attach, disk, node)
    await asyncio.sleep(record.delays.attach_reply if new else 0)
    return path


async def detach_disk(array: DiskArray, disk: str, node: str) -> None:
    """Detaches the disk, likewise; one that does not exist is detached. Raises
    DeviceStillInUse, DiskTrouble."""
    try:
        record = await blocking(array.get, disk)
    except VolumeNotFound:
        return
    if node in record.nodes:
        await meet_trouble(array, disk, "detach")
        await asyncio.sleep(record.delays.detach)
        await blocking(array.detach, disk, node)
        await asyncio.sleep(record.delays.detach_reply)


def device_mount_directory(host: VolumeHost) -> Path:
    """Where the devices of all disks are mounted on a node: one directory for each, named like the disk."""
    return host.get_plugin_dir(PLUGIN_NAME) / "mounts"
