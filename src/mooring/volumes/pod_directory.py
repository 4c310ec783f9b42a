"""A pod's volume that is a directory of the node: the base of most mounters and unmounters.

A plugin says what to do at a path. Where the path is, and that `set_up` is `set_up_at` there, is here once.
"""

from __future__ import annotations

from mooring.kube.objects import Pod
from mooring.mounts.blocking import blocking
from mooring.volumes.directories import remove_tree
from mooring.volumes.errors import VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, Mounter, Unmounter
from mooring.volumes.metrics import file_system_metrics
from mooring.volumes.ownership import give_to_group, on_root_mismatch
from mooring.volumes.spec import VolumeSpec


class PodDirectoryMounter(Mounter):
    """Sets up `<pod>/volumes/<plugin>/<spec name>`. Its use is that of the file system it is
    on, unless overridden."""

    def __init__(self, host: VolumeHost, plugin: str, spec: VolumeSpec, pod: Pod) -> None:
        self._host = host
        self._name = spec.name
        self._path = str(host.get_pod_volume_dir(pod.uid, plugin, spec.name))

    def get_path(self) -> str:
        return self._path

    async def get_metrics(self) -> Metrics:
        return await blocking(file_system_metrics, self._path)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self._path, fs_group)


class BindMounter(PodDirectoryMounter):
    """Shows what is mounted on the node at `device_mount_path`. Its content gets the fsGroup
    unless it is read-only."""

    def __init__(
        self,
        host: VolumeHost,
        plugin: str,
        spec: VolumeSpec,
        pod: Pod,
        device_mount_path: str,
        read_only: bool,
    ) -> None:
        super().__init__(host, plugin, spec, pod)
        self._device_mount_path = device_mount_path
        self._read_only = read_only
        self._on_root_mismatch = on_root_mismatch(pod)

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._read_only, managed=not self._read_only)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if not await self._host.mounts.is_mount_point(self._device_mount_path):
            raise VolumeError(
                f"volume {self._name} is not mounted on the node yet, at {self._device_mount_path}"
            )
        if fs_group is not None and not self._read_only:
            lazy = self._on_root_mismatch
            await blocking(give_to_group, self._device_mount_path, fs_group, on_root_mismatch=lazy)
        await self._host.mounts.bind_mount(self._device_mount_path, directory, self._read_only)


class PodDirectoryUnmounter(Unmounter):
    """Unmounts the directory. Content that is not a mount's is removed: it lives as long as the pod."""

    def __init__(self, host: VolumeHost, plugin: str, spec_name: str, pod_uid: str) -> None:
        self._host = host
        self._path = str(host.get_pod_volume_dir(pod_uid, plugin, spec_name))

    def get_path(self) -> str:
        return self._path

    async def tear_down(self) -> None:
        await self.tear_down_at(self._path)

    async def tear_down_at(self, directory: str) -> None:
        await self._host.mounts.unmount(directory)
        await blocking(remove_tree, directory)


class BindUnmounter(PodDirectoryUnmounter):
    """Removes a bind mount and its mount point; never content."""

    async def tear_down_at(self, directory: str) -> None:
        await self._host.mounts.remove_mount_point(directory)
