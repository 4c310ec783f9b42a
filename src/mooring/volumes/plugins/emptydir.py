"""`kubernetes.io/empty-dir`: a directory that lives as long as its pod, on disk or in memory
(`medium: Memory`)."""

from __future__ import annotations

import os
from dataclasses import replace

from mooring.kube.objects import EmptyDirVolumeSource, Pod, Volume
from mooring.kube.quantity import InvalidQuantity, parse_bytes
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, VolumePlugin
from mooring.volumes.metrics import directory_metrics
from mooring.volumes.ownership import give_to_group
from mooring.volumes.pod_directory import PodDirectoryMounter, PodDirectoryUnmounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/empty-dir"
MEMORY = "Memory"
_ANYBODY = 0o777


class EmptyDirMounter(PodDirectoryMounter):
    """Makes the directory; with `medium: Memory`, a tmpfs of `sizeLimit` on it."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._source = _source(spec)

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=False, managed=True)

    async def get_metrics(self) -> Metrics:
        """The use of the directory; its capacity is `sizeLimit` if there is one."""
        found = await blocking(directory_metrics, self._path)
        limit = self._size_limit()
        if not limit:
            return found
        return replace(found, capacity=limit, available=max(0, min(found.available, limit - found.used)))

    async def limit_exceeded(self) -> str | None:
        """Returns why the pod is over the limit of a directory on disk, or None. In memory, the
        tmpfs is no larger than its limit."""
        limit = self._size_limit()
        if not limit or self._source.medium == MEMORY:
            return None
        used = (await blocking(directory_metrics, self._path)).used
        if used <= limit:
            return None
        return f'Usage of EmptyDir volume "{self._name}" exceeds the limit "{self._source.size_limit}".'

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        options = self._tmpfs_options()
        os.makedirs(directory, exist_ok=True)
        if options:
            if not await self._host.mounts.is_mount_point(directory):
                await self._host.mounts.mount("tmpfs", directory, "tmpfs", options)
        elif not os.listdir(directory):  # a directory in use keeps the mode that its pod has given it
            os.chmod(directory, _ANYBODY)
        if fs_group is not None:
            await blocking(give_to_group, directory, fs_group)

    def _tmpfs_options(self) -> list[str]:
        """Empty for a directory on disk."""
        if self._source.medium not in ("", MEMORY):
            raise InvalidSpec(
                f"emptyDir {self._name} has medium {self._source.medium!r}: only Memory is known"
            )
        if self._source.medium != MEMORY:
            return []
        limit = self._size_limit()
        return ["mode=1777", *([f"size={limit}"] if limit else [])]

    def _size_limit(self) -> int:
        try:
            return parse_bytes(self._source.size_limit or 0)
        except InvalidQuantity as error:
            raise InvalidSpec(
                f"emptyDir {self._name} has sizeLimit {self._source.size_limit!r}: {error}"
            ) from error


class EmptyDirPlugin(VolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        _source(spec)
        return spec.name

    def can_support(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.empty_dir is not None

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> EmptyDirMounter:
        return EmptyDirMounter(self._host, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> PodDirectoryUnmounter:
        return PodDirectoryUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, empty_dir=EmptyDirVolumeSource()))


def _source(spec: VolumeSpec) -> EmptyDirVolumeSource:
    if spec.volume is None or spec.volume.empty_dir is None:
        raise InvalidSpec(f"volume {spec.name} is not an emptyDir")
    return spec.volume.empty_dir


def plugin() -> EmptyDirPlugin:
    """The factory that the entry point names."""
    return EmptyDirPlugin()
