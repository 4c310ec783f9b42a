"""`kubernetes.io/fc`: disks of Fibre Channel storages, in pods and PersistentVolumes (`fc`).

The fabric shows a disk to every node that its zones let in. What is as with other disks of a network storage
is in `granted_disks`. Nothing is decided here: sources are read by `source`, and disks found and let go of by
`connections`.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from mooring.kube.objects import FCVolumeSource, PersistentVolumeSpec
from mooring.this_boot import boot_id
from mooring.volumes.plugins.fc.connections import Connections
from mooring.volumes.plugins.fc.devices import Devices
from mooring.volumes.plugins.fc.notes import Notes
from mooring.volumes.plugins.fc.source import (
    PLUGIN_NAME,
    Disk,
    disk,
    disk_at,
    global_path,
    volume_name,
    written,
)
from mooring.volumes.plugins.granted_disks import GrantedDiskPlugin
from mooring.volumes.spec import VolumeSpec


class FCPlugin(GrantedDiskPlugin):
    """The plugin."""

    thing, grown = "LUN", "grow the LUN on the storage"

    @cached_property
    def _connections(self) -> Connections:
        """Made when first needed: a controller has no directory for them."""
        notes = Notes(self._host.get_plugin_dir(PLUGIN_NAME), boot_id())
        return Connections(notes, Devices(), self._host.node_name)

    @property
    def connected(self) -> Connections:
        return self._connections

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return volume_name(disk(spec))

    def get_volume_name_at(self, device_mount_path: str) -> str | None:
        found = disk_at(device_mount_path)
        return volume_name(found) if found is not None else None

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def disk(self, spec: VolumeSpec) -> Disk:
        return disk(spec)

    def place(self, spec: VolumeSpec, *, block: bool = False) -> Path:
        return global_path(self._host, disk(spec), block=block)

    async def connect(self, spec: VolumeSpec, path: str, *, block: bool, in_use: bool) -> str:
        return await self._connections.connect(disk(spec), path, block=block, in_use=in_use)

    async def size(self, spec: VolumeSpec, path: str) -> tuple[str, int]:
        return await self._connections.refresh(disk(spec), path)

    def source_at(self, path: str) -> PersistentVolumeSpec | None:
        if (found := disk_at(path)) is None:
            return None
        lun = found.lun if found.wwns else None
        return PersistentVolumeSpec(fc=FCVolumeSource(target_wwns=found.wwns, lun=lun, wwids=found.wwids))


def plugin() -> FCPlugin:
    """The factory that the entry point names."""
    return FCPlugin()
