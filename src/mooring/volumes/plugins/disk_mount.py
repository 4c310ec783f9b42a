"""Shows a mounted disk to one pod: the `Mounter` of `mooring.dev/disk`, a bind mount."""

from __future__ import annotations

from mooring.kube.objects import Pod
from mooring.volumes.host import VolumeHost
from mooring.volumes.plugins.disk_source import PLUGIN_NAME, disk_source
from mooring.volumes.pod_directory import BindMounter
from mooring.volumes.spec import VolumeSpec


class DiskMounter(BindMounter):
    """Binds the device's mount into the pod's directory."""

    def __init__(
        self, host: VolumeHost, spec: VolumeSpec, pod: Pod, device_mount_path: str, formats: bool
    ) -> None:
        self._source = disk_source(spec)
        read_only = spec.read_only or self._source.read_only
        super().__init__(host, PLUGIN_NAME, spec, pod, device_mount_path, read_only)
        self._formats = formats

    async def can_mount(self) -> None:
        if self._formats:
            await self._host.mounts.can_make(self._source.fs_type)
