"""`mooring.dev/disk`: disks of the array on this machine (`disk_array`) as attachable, provisionable volumes.

In a PersistentVolume or a pod: `flexVolume: {driver: mooring.dev/disk, fsType: ext4, options: {disk: NAME}}`,
to which `exclusive: "false"` is added for a disk without lock. A StorageClass: `provisioner:
mooring.dev/disk`, parameters as in `disk_source.Parameters`. Settings of the process: `array` (the array's
directory, needed) and `mode` (`loop`, the default; `directory`, which needs no privileges for devices;
or `machine`, for an agent inside a machine with a kernel of its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from mooring.kube.objects import FlexVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.mounts.blocking import blocking
from mooring.mounts.filesystem import device_size
from mooring.volumes.errors import InvalidSpec, PluginError, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    AttachCapabilities,
    BlockVolumePlugin,
    DeletableVolumePlugin,
    ExpandableVolumePlugin,
    Expansion,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    Snapshot,
    SnapshotOptions,
    SnapshottableVolumePlugin,
    VolumeOptions,
)
from mooring.volumes.matching import capacity
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_attachment import DiskAttacher, device_mount_directory
from mooring.volumes.plugins.disk_faults import meet_trouble
from mooring.volumes.plugins.disk_mount import DiskMounter
from mooring.volumes.plugins.disk_provisioning import DiskDeleter, DiskProvisioner, whole_mib
from mooring.volumes.plugins.disk_snapshots import DiskSnapshots
from mooring.volumes.plugins.disk_source import PLUGIN_NAME, disk_source, flex_volume
from mooring.volumes.pod_device import PodDevice, block_device
from mooring.volumes.pod_directory import BindUnmounter
from mooring.volumes.spec import VolumeSpec


class DiskPlugin(
    AttachableVolumePlugin,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    DeletableVolumePlugin,
    ExpandableVolumePlugin,
    NodeExpandableVolumePlugin,
    SnapshottableVolumePlugin,
    BlockVolumePlugin,
):
    """The plugin. Its array is the same for all processes of a machine that have the same setting."""

    _host: VolumeHost
    _formats: bool

    def init(self, host: VolumeHost) -> None:
        self._host = host
        settings = host.settings(PLUGIN_NAME)
        self._formats = settings.get("mode", "loop") != "directory"
        if "array" in settings:
            _ = self._array  # a setting that is wrong is said at the start

    @cached_property
    def _array(self) -> DiskArray:
        """The array, once something is to be done there: to ask for names and abilities needs no setting."""
        settings = self._host.settings(PLUGIN_NAME)
        if "array" not in settings:
            raise PluginError(
                f"the setting `array` of {PLUGIN_NAME} is missing: the directory of the disk array"
            )
        return DiskArray(Path(settings["array"]), settings.get("mode", "loop"))

    @cached_property
    def _snapshots(self) -> DiskSnapshots:
        return DiskSnapshots(Path(self._host.settings(PLUGIN_NAME)["array"]), self._array, self._host.now)

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return disk_source(spec).disk

    def can_support(self, spec: VolumeSpec) -> bool:
        return flex_volume(spec) is not None

    def volume_limit(self) -> int | None:
        """The setting `maxVolumes`."""
        limit = self._host.settings(PLUGIN_NAME).get("maxVolumes")
        return int(limit) if limit else None

    def supports_mount_option(self) -> bool:
        return True

    def supports_selinux_mount(self, spec: VolumeSpec) -> bool:
        return self._formats

    def supports_bulk_volume_verification(self) -> bool:
        return True

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany")

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        exclusive = disk_source(spec).exclusive
        return AttachCapabilities(
            refuses=exclusive, revokes=False, multi_attach=not exclusive, request_validity_s=0
        )

    def new_attacher(self) -> DiskAttacher:
        return DiskAttacher(self._array, self._host)

    def new_detacher(self) -> DiskAttacher:
        return DiskAttacher(self._array, self._host)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return await self._host.mounts.get_device_mount_refs(device_mount_path)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> DiskMounter:
        return DiskMounter(
            self._host, spec, pod, self.new_attacher().get_device_mount_path(spec), self._formats
        )

    def new_unmounter(self, spec_name: str, pod_uid: str) -> BindUnmounter:
        return BindUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid)

    def new_provisioner(self, options: VolumeOptions) -> DiskProvisioner:
        return DiskProvisioner(self._array, self._snapshots, options, gives_devices=self._formats)

    def new_deleter(self, spec: VolumeSpec) -> DiskDeleter:
        return DiskDeleter(self._array, disk_source(spec))

    async def create_snapshot(self, volume_name: str, name: str, options: SnapshotOptions) -> Snapshot:
        return await blocking(self._snapshots.create, volume_name, name)

    async def get_snapshot(self, handle: str, options: SnapshotOptions) -> Snapshot:
        return await blocking(self._snapshots.get, handle)

    async def delete_snapshot(self, handle: str, options: SnapshotOptions) -> None:
        await blocking(self._snapshots.delete, handle)

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        disk = disk_source(spec).disk
        await meet_trouble(self._array, disk, "expand")
        grown = await blocking(self._array.expand, disk, whole_mib(new_size))
        return Expansion(grown.size, on_node=self._formats)

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        if not self._formats:
            return
        device = self._array.device(disk_source(spec).disk, self._host.node_name)
        if device is None:
            raise VolumeError(f"volume {spec.name} has no device on node {self._host.node_name}")
        await self._must_show_its_size(spec, device)
        await self._host.mounts.resize(device, device_mount_path)

    async def _must_show_its_size(self, spec: VolumeSpec, device: str) -> None:
        """A machine with a kernel of its own shows a disk with the size that it was plugged in with."""
        wanted = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        shown = await blocking(device_size, device)
        if shown < wanted:
            raise VolumeError(
                f"volume {spec.name} has {wanted} bytes now, and {device} still shows {shown}: this node's kernel "
                "learns of it when the volume is attached anew. Delete the pods that use it on this node, and "
                "start them again when it is detached"
            )

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        device = block_device(device_path, spec.name)
        await self.new_attacher().verify_device(spec, device)
        return device

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec.name, pod.uid)

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        directory = str(device_mount_directory(self._host))
        refs = map(Path, await self._host.mounts.get_device_mount_refs(mount_path))
        disk = next((ref.name for ref in refs if str(ref.parent) == directory), None)
        if disk is None:
            raise InvalidSpec(f"{mount_path} shows no disk that is mounted below {directory}")
        source = FlexVolumeSource(driver=PLUGIN_NAME, options={"disk": disk})
        pv = PersistentVolume(
            metadata=ObjectMeta(name=volume_name), spec=PersistentVolumeSpec(flex_volume=source)
        )
        return VolumeSpec.of_persistent_volume(pv)


def plugin() -> DiskPlugin:
    """The factory that the entry point names."""
    return DiskPlugin()
