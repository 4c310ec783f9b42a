"""`kubernetes.io/fc`: disks of Fibre Channel storages, in pods and PersistentVolumes (`fc`).

The fabric shows a disk to every node that its zones let in; a node finds it inside `mount_device` or
`set_up_device`. A PersistentVolume for one node at a time is granted to it first (`volumes.granted`); any
other is not attached, as in upstream. Nothing is decided here: sources are read by `source`, and disks found
and let go of by `connections`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from mooring.kube.objects import FCVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.volumes.errors import InvalidSpec, StorageRefused, VolumeError
from mooring.volumes.granted import Granted, GrantedVolumePlugin
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    BlockVolumePlugin,
    ExpandableVolumePlugin,
    Expansion,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
)
from mooring.volumes.matching import capacity
from mooring.volumes.plugins.fc.connections import Connections
from mooring.volumes.plugins.fc.devices import Devices
from mooring.volumes.plugins.fc.notes import BOOT, Notes
from mooring.volumes.plugins.fc.source import PLUGIN_NAME, disk, disk_at, global_path, volume_name, written
from mooring.volumes.pod_device import PodDevice, block_device
from mooring.volumes.pod_directory import BindMounter, BindUnmounter
from mooring.volumes.spec import VolumeSpec


class FCAttacher(Granted):
    """Finds the disk and mounts it; unmounts it and lets go of it. `connections` are asked for on nodes
    alone."""

    def __init__(self, host: VolumeHost, connections: Callable[[], Connections]) -> None:
        self._host = host
        self._connections = connections

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(global_path(self._host, disk(spec)))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        wanted = disk(spec)
        mounted = await self._host.mounts.is_mount_point(device_mount_path)
        device = await self._connections().connect(wanted, device_mount_path, block=False, in_use=mounted)
        options = (*spec.mount_options, *(("ro",) if wanted.read_only else ()))
        await self._host.mounts.format_and_mount(device, device_mount_path, wanted.fs_type, options)

    async def unmount_device(self, device_mount_path: str) -> None:
        await self._host.mounts.remove_mount_point(device_mount_path)
        await self._connections().release(device_mount_path)


class FCMounter(BindMounter):
    """Shows the mounted disk to one pod."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod) -> None:
        self._disk = disk(spec)
        path = str(global_path(host, self._disk))
        super().__init__(host, PLUGIN_NAME, spec, pod, path, self._disk.read_only)

    async def can_mount(self) -> None:
        await self._host.mounts.can_make(self._disk.fs_type)


class FCPlugin(
    GrantedVolumePlugin,
    BlockVolumePlugin,
    PersistentVolumePlugin,
    ExpandableVolumePlugin,
    NodeExpandableVolumePlugin,
):
    """The plugin."""

    @cached_property
    def _connections(self) -> Connections:
        """Made when first needed: a controller has no directory for them."""
        notes = Notes(self._host.get_plugin_dir(PLUGIN_NAME), BOOT.read_text().strip())
        return Connections(notes, Devices(), self._host.node_name)

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return volume_name(disk(spec))

    def get_volume_name_at(self, device_mount_path: str) -> str | None:
        found = disk_at(device_mount_path)
        return volume_name(found) if found is not None else None

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def supports_mount_option(self) -> bool:
        return True

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany")

    def new_attacher(self) -> FCAttacher:
        return FCAttacher(self._host, lambda: self._connections)

    def new_detacher(self) -> FCAttacher:
        return FCAttacher(self._host, lambda: self._connections)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return await self._host.mounts.get_device_mount_refs(device_mount_path)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> FCMounter:
        return FCMounter(self._host, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> BindUnmounter:
        return BindUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        """Nothing here can grow a LUN: who has grown it says so in the PersistentVolume, and a node looks."""
        said = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        if said < new_size:
            raise StorageRefused(
                f"volume {spec.name} is to have {new_size} bytes, and its PersistentVolume says {said}: grow the LUN "
                f"on the storage, then write its size into spec.capacity of the PersistentVolume"
            )
        return Expansion(said, on_node=True)

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        wanted = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        device, size = await self._connections.refresh(disk(spec), device_mount_path)
        if size < wanted:
            raise VolumeError(
                f"volume {spec.name} has {wanted} bytes by its PersistentVolume, and its LUN has {size}: grow the LUN "
                f"on the storage"
            )
        await self._host.mounts.resize(device, device_mount_path)

    # --- raw devices

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        wanted = disk(spec)
        path = str(global_path(self._host, wanted, block=True))
        given = await self._connections.has(path)
        device = await self._connections.connect(wanted, path, block=True, in_use=given)
        return block_device(device, spec.name)

    async def tear_down_device(self, device_path: str) -> None:
        path = await self._connections.block_path(device_path)
        if path is not None:
            await self._connections.release(path)

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec.name, pod.uid)

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec_name, pod_uid)

    # --- after a restart

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        plugin = self._host.get_plugin_dir(PLUGIN_NAME)
        refs = await self._host.mounts.get_device_mount_refs(mount_path)
        found = next((at for ref in refs if Path(ref).is_relative_to(plugin) and (at := disk_at(ref))), None)
        if found is None:
            raise InvalidSpec(f"{mount_path} shows no disk that is mounted below {plugin}")
        source = FCVolumeSource(
            target_wwns=found.wwns, lun=found.lun if found.wwns else None, wwids=found.wwids
        )
        spec = PersistentVolumeSpec(fc=source)
        return VolumeSpec.of_persistent_volume(
            PersistentVolume(metadata=ObjectMeta(name=volume_name), spec=spec)
        )


def plugin() -> FCPlugin:
    """The factory that the entry point names."""
    return FCPlugin()
