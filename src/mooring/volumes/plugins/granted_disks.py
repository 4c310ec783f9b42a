"""Disks of a network storage that a node finds by itself: what the plugins of iSCSI, Fibre Channel and RBD
share. A file system is mounted once for the node; a raw device is linked to. Which disk is meant, and how it
comes to the node, is the plugin's to say.

The node connects inside `mount_device` or `set_up_device`. A PersistentVolume for one node at a time is
granted to it first (`volumes.granted`); any other is not attached, as in upstream.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from mooring.kube.objects import ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
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
from mooring.volumes.pod_device import PodDevice, block_device
from mooring.volumes.pod_directory import BindMounter, BindUnmounter
from mooring.volumes.spec import VolumeSpec


class Disk(Protocol):
    """What a source names, checked."""

    @property
    def fs_type(self) -> str: ...
    @property
    def read_only(self) -> bool: ...


class Connected(Protocol):
    """The disks of one node, by the global paths of their volumes."""

    async def release(self, path: str) -> None:
        """Undoes what was done for the volume at that path. Idempotent. Raises VolumeError."""
        ...

    async def has(self, path: str) -> bool:
        """Whether the raw device of that path was given to pods."""
        ...

    async def block_path(self, device: str) -> str | None:
        """The path under which a raw device was written down. One that was not given to pods yet, since the
        agent was killed or the storage did not answer, is known by that path."""
        ...


class GrantedDiskPlugin(
    GrantedVolumePlugin,
    BlockVolumePlugin,
    PersistentVolumePlugin,
    ExpandableVolumePlugin,
    NodeExpandableVolumePlugin,
):
    """`thing`: what the storage calls such a disk; `grown`: what its operator does to make it larger."""

    thing: ClassVar[str]
    grown: ClassVar[str]

    # --- each plugin's own

    @abstractmethod
    def disk(self, spec: VolumeSpec) -> Disk:
        """Raises InvalidSpec."""

    @abstractmethod
    def place(self, spec: VolumeSpec, *, block: bool = False) -> Path:
        """The global path. Raises InvalidSpec."""

    @abstractmethod
    def source_at(self, path: str) -> PersistentVolumeSpec | None:
        """What a global path says of its disk; None if it is none."""

    @property
    @abstractmethod
    def connected(self) -> Connected:
        """On nodes alone."""

    @abstractmethod
    async def connect(self, spec: VolumeSpec, path: str, *, block: bool, in_use: bool) -> str:
        """The device of the disk, for the volume at that global path. Raises VolumeError."""

    @abstractmethod
    async def size(self, spec: VolumeSpec, path: str) -> tuple[str, int]:
        """The device, and its size in bytes, asked anew. Raises VolumeError."""

    # --- what they share

    def supports_mount_option(self) -> bool:
        return True

    def supports_selinux_mount(self, spec: VolumeSpec) -> bool:
        return True

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany")

    def new_attacher(self) -> DiskAttacher:
        return DiskAttacher(self._host, self)

    def new_detacher(self) -> DiskAttacher:
        return DiskAttacher(self._host, self)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return await self._host.mounts.get_device_mount_refs(device_mount_path)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> DiskMounter:
        return DiskMounter(self._host, self, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> BindUnmounter:
        return BindUnmounter(self._host, self.get_plugin_name(), spec_name, pod_uid)

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        """Nothing here can grow it: who has grown it says so in the PersistentVolume, and a node looks."""
        said = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        if said < new_size:
            raise StorageRefused(
                f"volume {spec.name} is to have {new_size} bytes, and its PersistentVolume says {said}: {self.grown}, "
                "then write its size into spec.capacity of the PersistentVolume"
            )
        return Expansion(said, on_node=True)

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        wanted = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        device, size = await self.size(spec, device_mount_path)
        if size < wanted:
            raise VolumeError(
                f"volume {spec.name} has {wanted} bytes by its PersistentVolume, and its {self.thing} has {size}: "
                f"{self.grown}"
            )
        await self._host.mounts.resize(device, device_mount_path)

    def get_global_map_path(self, spec: VolumeSpec) -> str:
        """Of what is left there by a set up that did not end, its `connected` takes care."""
        return str(self.place(spec, block=True))

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        path = self.get_global_map_path(spec)
        given = await self.connected.has(path)
        return block_device(await self.connect(spec, path, block=True, in_use=given), spec.name)

    async def tear_down_device(self, device_path: str) -> None:
        path = await self.connected.block_path(device_path)
        if path is not None:
            await self.connected.release(path)

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> PodDevice:
        return PodDevice(self._host, self.get_plugin_name(), spec.name, pod.uid)

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> PodDevice:
        return PodDevice(self._host, self.get_plugin_name(), spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        plugin = self._host.get_plugin_dir(self.get_plugin_name())
        refs = await self._host.mounts.get_device_mount_refs(mount_path)
        below = (ref for ref in refs if Path(ref).is_relative_to(plugin))
        spec = next((found for ref in below if (found := self.source_at(ref)) is not None), None)
        if spec is None:
            raise InvalidSpec(f"{mount_path} shows no disk that is mounted below {plugin}")
        return VolumeSpec.of_persistent_volume(
            PersistentVolume(metadata=ObjectMeta(name=volume_name), spec=spec)
        )


class DiskAttacher(Granted):
    """Connects and mounts; unmounts and lets go."""

    def __init__(self, host: VolumeHost, plugin: GrantedDiskPlugin) -> None:
        self._host, self._plugin = host, plugin

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(self._plugin.place(spec))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        wanted = self._plugin.disk(spec)
        mounted = await self._host.mounts.is_mount_point(device_mount_path)
        device = await self._plugin.connect(spec, device_mount_path, block=False, in_use=mounted)
        options = (*spec.mount_options, *(("ro",) if wanted.read_only else ()))
        await self._host.mounts.format_and_mount(device, device_mount_path, wanted.fs_type, options)

    async def unmount_device(self, device_mount_path: str) -> None:
        await self._host.mounts.remove_mount_point(device_mount_path)
        await self._plugin.connected.release(device_mount_path)


class DiskMounter(BindMounter):
    """Shows the mounted disk to one pod."""

    def __init__(self, host: VolumeHost, plugin: GrantedDiskPlugin, spec: VolumeSpec, pod: Pod) -> None:
        disk = plugin.disk(spec)
        super().__init__(host, plugin.get_plugin_name(), spec, pod, str(plugin.place(spec)), disk.read_only)
        self._fs_type = disk.fs_type

    async def can_mount(self) -> None:
        await self._host.mounts.can_make(self._fs_type)
