"""`kubernetes.io/local-volume`: a directory or block device of one node as a PersistentVolume (`local`).

A directory is shown as it is; a block device is formatted if it is provably blank (fsType, default ext4) and
mounted, or, with volumeMode Block, given as it is. The PersistentVolume's node affinity, without which the
API refuses it, says where that is; the scheduler obeys it. Nothing is attached: the device is the node's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from mooring.kube.objects import LocalVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    BlockVolumePlugin,
    DeviceMountableVolumePlugin,
    DeviceMounter,
    DeviceUnmounter,
    PersistentVolumePlugin,
    RecyclableVolumePlugin,
    RecycleEventRecorder,
)
from mooring.volumes.pod_device import PodDevice, block_device
from mooring.volumes.pod_directory import BindMounter, BindUnmounter
from mooring.volumes.scrub import may_recycle, scrub
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/local-volume"
DEFAULT_FS_TYPE = "ext4"


class LocalDeviceMounter(DeviceMounter, DeviceUnmounter):
    """Mounts what is at the path once for the node, so that all pods and block devices go one way."""

    def __init__(self, host: VolumeHost) -> None:
        self._host = host

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        _source(spec)
        return str(device_mount_directory(self._host) / spec.name)

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        source = _source(spec)
        mode = _mode_of(source.path, spec.name)
        if stat.S_ISBLK(mode):
            fs_type = source.fs_type or DEFAULT_FS_TYPE
            await self._host.mounts.format_and_mount(
                source.path, device_mount_path, fs_type, spec.mount_options
            )
        elif stat.S_ISDIR(mode):
            await self._host.mounts.bind_mount(source.path, device_mount_path)
        else:
            raise InvalidSpec(
                f"{source.path} of volume {spec.name} is neither a directory nor a block device"
            )

    async def unmount_device(self, device_mount_path: str) -> None:
        await self._host.mounts.remove_mount_point(device_mount_path)


class LocalPlugin(
    DeviceMountableVolumePlugin, BlockVolumePlugin, PersistentVolumePlugin, RecyclableVolumePlugin
):
    """The plugin."""

    _host: VolumeHost

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        _source(spec)
        return spec.name

    def is_named_by_object(self) -> bool:
        return True

    def can_support(self, spec: VolumeSpec) -> bool:
        return spec.persistent_volume is not None and spec.persistent_volume.spec.local is not None

    def supports_mount_option(self) -> bool:
        return True

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod")

    def new_device_mounter(self) -> LocalDeviceMounter:
        return LocalDeviceMounter(self._host)

    def new_device_unmounter(self) -> LocalDeviceMounter:
        return LocalDeviceMounter(self._host)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        """Returns the pods' mounts. A directory that is shown may also be mounted by others,
        which does not count."""
        pods = self._host.pods_dir()
        refs = await self._host.mounts.get_device_mount_refs(device_mount_path)
        return [ref for ref in refs if Path(ref).is_relative_to(pods)]

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> BindMounter:
        path = self.new_device_mounter().get_device_mount_path(spec)
        return BindMounter(self._host, PLUGIN_NAME, spec, pod, path, spec.read_only)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> BindUnmounter:
        return BindUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        source = _source(spec)
        _mode_of(source.path, spec.name)
        return block_device(source.path, spec.name)

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec.name, pod.uid)

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        spec = PersistentVolumeSpec(local=LocalVolumeSource(path=mount_path))
        return VolumeSpec.of_persistent_volume(
            PersistentVolume(metadata=ObjectMeta(name=volume_name), spec=spec)
        )

    async def recycle(self, pv_name: str, spec: VolumeSpec, event_recorder: RecycleEventRecorder) -> None:
        may_recycle(self._host.settings(PLUGIN_NAME), pv_name)
        await scrub(_source(spec).path, pv_name, event_recorder)


def device_mount_directory(host: VolumeHost) -> Path:
    """Where the volumes of this plugin are mounted on a node."""
    return host.get_plugin_dir(PLUGIN_NAME) / "mounts"


def _source(spec: VolumeSpec) -> LocalVolumeSource:
    if spec.persistent_volume is None or spec.persistent_volume.spec.local is None:
        raise InvalidSpec(f"volume {spec.name} is not a local volume")
    return spec.persistent_volume.spec.local


def _mode_of(path: str, volume: str) -> int:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        raise VolumeError(
            f"{path} of volume {volume} does not exist on this node: make it, or mend nodeAffinity"
        ) from None


def plugin() -> LocalPlugin:
    """The factory that the entry point names."""
    return LocalPlugin()
