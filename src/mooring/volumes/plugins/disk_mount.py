"""Shows a mounted disk to one pod: `Mounter` and `Unmounter` of `mooring.dev/disk`, both bind mounts."""

from __future__ import annotations

from mooring.kube.objects import Pod
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, Mounter, Unmounter
from mooring.volumes.metrics import file_system_metrics
from mooring.volumes.ownership import give_to_group
from mooring.volumes.plugins.disk_source import PLUGIN_NAME, disk_source
from mooring.volumes.spec import VolumeSpec


class DiskMounter(Mounter):
    """Binds the device's mount into the pod's directory."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod, device_mount_path: str, formats: bool) -> None:
        self._host = host
        self._source = disk_source(spec)
        self._name = spec.name
        self._read_only = spec.read_only or self._source.read_only
        self._path = str(host.get_pod_volume_dir(pod.uid, PLUGIN_NAME, spec.name))
        self._device_mount_path = device_mount_path
        self._formats = formats

    def get_path(self) -> str:
        return self._path

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._read_only, managed=not self._read_only)

    async def get_metrics(self) -> Metrics:
        return await blocking(file_system_metrics, self._path)

    async def can_mount(self) -> None:
        if self._formats:
            await self._host.mounts.can_make(self._source.fs_type)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self._path, fs_group)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if not await self._host.mounts.is_mount_point(self._device_mount_path):
            raise VolumeError(f"volume {self._name} is not mounted on the node yet, at {self._device_mount_path}")
        if fs_group is not None and not self._read_only:
            await blocking(give_to_group, self._device_mount_path, fs_group)
        await self._host.mounts.bind_mount(self._device_mount_path, directory, self._read_only)


class DiskUnmounter(Unmounter):
    """Removes the bind mount."""

    def __init__(self, host: VolumeHost, spec_name: str, pod_uid: str) -> None:
        self._host = host
        self._path = str(host.get_pod_volume_dir(pod_uid, PLUGIN_NAME, spec_name))

    def get_path(self) -> str:
        return self._path

    async def tear_down(self) -> None:
        await self.tear_down_at(self._path)

    async def tear_down_at(self, directory: str) -> None:
        await self._host.mounts.remove_mount_point(directory)
