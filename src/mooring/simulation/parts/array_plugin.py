"""The plugin of storage that is only played (`storage`), by the production interfaces."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from mooring.kube.objects import FlexVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.simulation.engine.event_loop import START
from mooring.simulation.parts.kept_snapshots import KeptSnapshot
from mooring.simulation.parts.raw_devices import DEVICES, make_device
from mooring.simulation.parts.storage import Array
from mooring.simulation.parts.storage_errors import Unanswered
from mooring.simulation.parts.storage_targets import target_of
from mooring.volumes.errors import InvalidSpec, VolumeError, WrongDevice
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    DEVICE_PATH,
    AttachableVolumePlugin,
    AttachCapabilities,
    Attacher,
    Attachment,
    Attributes,
    BlockVolumePlugin,
    DeletableVolumePlugin,
    Deleter,
    Detacher,
    ExpandableVolumePlugin,
    Expansion,
    Mounter,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    Provisioner,
    RecyclableVolumePlugin,
    RecycleEventRecorder,
    Served,
    Snapshot,
    SnapshotOptions,
    SnapshottableVolumePlugin,
    Unmounter,
    VolumeOptions,
)
from mooring.volumes.matching import PROVISIONED_BY
from mooring.volumes.pod_device import PodDevice
from mooring.volumes.spec import VolumeSpec

__all__ = ["DISK", "Array", "ArrayPlugin", "DirectoryMounter", "GrowingArrayPlugin"]

DISK = "example.com/disk"


class DirectoryMounter(Mounter, Unmounter):
    """A directory that stands for a pod's volume."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_path(self) -> str:
        return str(self._path)

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=False, managed=True)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self.get_path())

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        self._path.mkdir(parents=True, exist_ok=True)

    async def tear_down(self) -> None:
        await self.tear_down_at(self.get_path())

    async def tear_down_at(self, directory: str) -> None:
        if self._path.exists():
            self._path.rmdir()


class _DiskDirectory(DirectoryMounter):
    """What a pod sees of a disk: a file that stands for all that is on it. Removing that file empties the
    disk."""

    def __init__(self, path: Path, array: Array, node: str) -> None:
        super().__init__(path)
        self._array, self._content, self._node = array, path / "content", node

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        await self._array.mounting(self._node)
        await super().set_up_at(directory, fs_group)
        self._content.touch()
        self._array.journal(self._node, "truth.set-up", **self._shown())
        if (failure := self._array.set_up_failure.get(self._node)) is not None:
            raise failure

    async def tear_down_at(self, directory: str) -> None:
        if self._path.exists() and not self._content.exists():
            self._array.empty(self._path.name)
        self._content.unlink(missing_ok=True)
        there = self._path.exists()
        await super().tear_down_at(directory)
        if there:
            self._array.journal(self._node, "truth.torn-down", **self._shown())

    def _shown(self) -> dict[str, str]:
        return {"volume": self._path.name, "uid": self._path.parents[2].name, "node": self._node}


class _DiskDevice(PodDevice):
    """A disk's device, for one pod."""

    def __init__(self, plugin: ArrayPlugin, spec_name: str, pod_uid: str) -> None:
        super().__init__(plugin.host, DISK, spec_name, pod_uid)
        self._array, self._node = plugin.array, plugin.host.node_name
        self._shown = {"volume": spec_name, "uid": pod_uid, "node": self._node}

    async def map_pod_device(self, device_path: str) -> None:
        await super().map_pod_device(device_path)
        self._array.journal(self._node, "truth.set-up", **self._shown)

    async def unmap_pod_device(self) -> None:
        there = self._path.is_symlink()
        await super().unmap_pod_device()
        if there:
            self._array.journal(self._node, "truth.torn-down", **self._shown)


class _Attacher(Attacher, Detacher):
    def __init__(self, plugin: ArrayPlugin) -> None:
        self._plugin, self._array = plugin, plugin.array

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        disk = self._plugin.get_volume_name(spec)
        await self._array.attach(disk, node_name)
        return {DEVICE_PATH: self._array.path(disk, node_name)}

    async def detach(self, volume_name: str, node_name: str) -> None:
        await self._array.detach(volume_name, node_name)

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool | Attachment]:
        return {spec: self._says(self._plugin.get_volume_name(spec), node_name) for spec in specs}

    def _says(self, disk: str, node_name: str) -> bool | Attachment:
        attached = self._array.says_attached(disk, node_name)
        return {DEVICE_PATH: self._array.path(disk, node_name)} if attached else False

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        return attachment[DEVICE_PATH]

    async def verify_device(self, spec: VolumeSpec, device_path: str) -> None:
        wanted = self._plugin.get_volume_name(spec)
        found = self._at_path(device_path, wanted)
        if found != wanted:
            raise WrongDevice(f"{device_path} is disk {found}, not {wanted}")

    def _at_path(self, path: str, wanted: str) -> str:
        if found := self._array.at_path(path, self._plugin.host.node_name, wanted):
            return found
        raise WrongDevice(f"{path} is not there")

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(self._plugin.host.get_plugin_dir(DISK) / "mounts" / self._plugin.get_volume_name(spec))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        node, wanted = self._plugin.host.node_name, Path(device_mount_path).name
        await self._array.mounting(node, wanted)
        found = self._at_path(device_path, wanted)
        if self._array.targets.refuses(found, node):
            raise VolumeError(f"mounting {found}: the storage shuts node {node} out")
        self._array.mount(found, node, path=device_path, wanted=wanted, raw=spec.block)
        if spec.block:
            make_device(Path(device_mount_path))
        if (failure := self._array.mount_failure.get(node)) is not None:
            raise failure
        await self._array.mounting(node)

    async def unmount_device(self, device_mount_path: str) -> None:
        node, path = self._plugin.host.node_name, Path(device_mount_path)
        await asyncio.sleep(self._array.unmount_s.get(node, 0.0))
        self._array.unmount(path.name, node)
        if path.is_file():
            path.unlink()


class _Provisioner(Provisioner):
    def __init__(self, array: Array, options: VolumeOptions) -> None:
        self._array, self._options = array, options

    async def provision(self) -> PersistentVolume:
        options = self._options
        if "bad" in options.parameters:
            raise InvalidSpec("the parameter bad is not known")
        source = ""
        if options.content is not None:
            source = options.content.snapshot or options.content.volume
            await asyncio.sleep(self._array.attach_s)  # what is to be copied may go meanwhile
        if self._array.failure is not None:
            raise self._array.failure
        self._array.create(options.pv_name, of=source)
        if self._array.unanswered():
            raise Unanswered(f"creating {options.pv_name}: no answer")
        return PersistentVolume(
            metadata=ObjectMeta(name=options.pv_name, annotations={PROVISIONED_BY: DISK}),
            spec=PersistentVolumeSpec(
                capacity={"storage": options.claim.spec.resources.requests["storage"]},
                access_modes=options.claim.spec.access_modes,
                volume_mode="Block" if options.claim.spec.volume_mode == "Block" else "Filesystem",
                persistent_volume_reclaim_policy=options.reclaim_policy,
                storage_class_name=options.claim.spec.storage_class_name or "",
                flex_volume=FlexVolumeSource(driver=DISK, options={"disk": options.pv_name}),
            ),
        )


class _Deleter(Deleter):
    def __init__(self, array: Array, disk: str) -> None:
        self._array, self._disk = array, disk

    def get_path(self) -> str:
        raise NotImplementedError

    async def delete(self) -> None:
        self._array.delete(self._disk)


class _Grows(ExpandableVolumePlugin, NodeExpandableVolumePlugin):
    """What the plugin of an array is beside, whose disks can grow."""

    array: Array
    host: VolumeHost

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        return Expansion(await self.array.grow(_disk(spec), new_size), on_node=True)

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        await self.array.grow_file_system(_disk(spec), self.host.node_name)


class _Keeps(SnapshottableVolumePlugin):
    """What the plugin of an array is beside, that keeps snapshots."""

    array: Array

    async def create_snapshot(self, volume_name: str, name: str, options: SnapshotOptions) -> Snapshot:
        return _shown(await self.array.snapshots.take(volume_name, name))

    async def get_snapshot(self, handle: str, options: SnapshotOptions) -> Snapshot:
        return _shown(self.array.snapshots.get(handle))

    async def delete_snapshot(self, handle: str, options: SnapshotOptions) -> None:
        await self.array.snapshots.delete(handle)


def _shown(kept: KeptSnapshot) -> Snapshot:
    return Snapshot(kept.handle, kept.size, START + timedelta(seconds=kept.at), kept.ready)


def _disk(spec: VolumeSpec) -> str:
    source = spec.persistent_volume.spec if spec.persistent_volume else spec.volume
    if source is None or source.flex_volume is None or "disk" not in source.flex_volume.options:
        raise InvalidSpec(f"volume {spec.name} does not name its disk")
    return source.flex_volume.options["disk"]


class ArrayPlugin(
    PersistentVolumePlugin,
    AttachableVolumePlugin,
    ProvisionableVolumePlugin,
    DeletableVolumePlugin,
    RecyclableVolumePlugin,
    BlockVolumePlugin,
):
    """The plugin of the array, for controllers and nodes."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def init(self, host: VolumeHost) -> None:
        self.host = host

    def get_plugin_name(self) -> str:
        return DISK

    def can_support(self, spec: VolumeSpec) -> bool:
        source = spec.persistent_volume.spec if spec.persistent_volume else spec.volume
        return source is not None and source.flex_volume is not None and source.flex_volume.driver == DISK

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return _disk(spec)

    def volume_limit(self) -> int | None:
        return self.array.limit

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        kind = self.array.kind
        return AttachCapabilities(
            refuses=kind.refuses,
            revokes=kind.revokes,
            multi_attach=False,
            request_validity_s=self.array.validity_s,
        )

    def served(self, spec: VolumeSpec) -> Sequence[Served]:
        disk = _disk(spec)
        return (Served(disk, target_of(disk)),)

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod")

    def new_attacher(self) -> _Attacher:
        return _Attacher(self)

    def new_detacher(self) -> _Attacher:
        return _Attacher(self)

    def new_provisioner(self, options: VolumeOptions) -> Provisioner:
        return _Provisioner(self.array, options)

    async def recycle(self, pv_name: str, spec: VolumeSpec, event_recorder: RecycleEventRecorder) -> None:
        await self.array.recycle(_disk(spec))

    def new_deleter(self, spec: VolumeSpec) -> Deleter:
        return _Deleter(self.array, self.get_volume_name(spec))

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return []

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> Mounter:
        path = self.host.get_pod_volume_dir(pod.uid, DISK, spec.name)
        return _DiskDirectory(path, self.array, self.host.node_name)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter:
        path = self.host.get_pod_volume_dir(pod_uid, DISK, spec_name)
        return _DiskDirectory(path, self.array, self.host.node_name)

    def get_global_map_path(self, spec: VolumeSpec) -> str:
        return str(self.host.get_plugin_dir(DISK) / DEVICES / _disk(spec))

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        path = self.get_global_map_path(spec)
        await self.new_attacher().mount_device(spec, device_path, path)
        return path

    async def tear_down_device(self, device_path: str) -> None:
        await self.new_detacher().unmount_device(device_path)

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> PodDevice:
        return _DiskDevice(self, spec.name, pod.uid)

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> PodDevice:
        return _DiskDevice(self, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec(volume_name)


class GrowingArrayPlugin(ArrayPlugin, _Grows):
    """The plugin of an array whose disks can grow."""


class KeepingArrayPlugin(ArrayPlugin, _Keeps):
    """The plugin of an array that keeps snapshots."""


class GrowingKeepingArrayPlugin(GrowingArrayPlugin, _Keeps):
    """The plugin of one that does both."""


def plugin_of(array: Array) -> ArrayPlugin:
    """The plugin for what the array can."""
    if array.keeps:
        return GrowingKeepingArrayPlugin(array) if array.grows else KeepingArrayPlugin(array)
    return GrowingArrayPlugin(array) if array.grows else ArrayPlugin(array)
