"""The base of the plugins that show content of the API as files: configMap, secret, downwardAPI, projected.

Each of them says where its source is in a volume and which files it makes. All files change together, and are
written again when their source changes (`requires_remount`).
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from mooring.kube.objects import Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, VolumePlugin
from mooring.volumes.metrics import directory_metrics
from mooring.volumes.payload import Payload, write_payload
from mooring.volumes.pod_directory import PodDirectoryMounter, PodDirectoryUnmounter
from mooring.volumes.spec import VolumeSpec

Source = TypeVar("Source")


class ContentPlugin(VolumePlugin, Generic[Source]):
    """A plugin for volumes that pods define themselves and whose content comes from the API."""

    name: str
    in_memory = False
    """Whether the files must not reach a disk."""
    host: VolumeHost

    def init(self, host: VolumeHost) -> None:
        self.host = host

    def get_plugin_name(self) -> str:
        return self.name

    @abstractmethod
    def find(self, volume: Volume) -> Source | None:
        """The part of the volume that is this plugin's."""

    @abstractmethod
    async def payload(self, source: Source, pod: Pod) -> Payload:
        """The files. Raises ContentMissing, InvalidSpec."""

    @abstractmethod
    def stand_in(self, name: str) -> Volume:
        """A volume of this plugin of which only the name is known."""

    def source(self, spec: VolumeSpec) -> Source:
        """Raises InvalidSpec for a spec of another plugin."""
        found = self.find(spec.volume) if spec.volume is not None else None
        if found is None:
            raise InvalidSpec(f"volume {spec.name} is not one of {self.name}")
        return found

    def get_volume_name(self, spec: VolumeSpec) -> str:
        self.source(spec)
        return spec.name

    def can_support(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and self.find(spec.volume) is not None

    def requires_remount(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> ContentMounter[Source]:
        return ContentMounter(self, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> PodDirectoryUnmounter:
        return PodDirectoryUnmounter(self.host, self.name, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(self.stand_in(volume_name))


class ContentMounter(PodDirectoryMounter, Generic[Source]):
    """Writes the files. Called repeatedly, it follows its source."""

    def __init__(self, plugin: ContentPlugin[Source], spec: VolumeSpec, pod: Pod) -> None:
        super().__init__(plugin.host, plugin.name, spec, pod)
        self._plugin = plugin
        self._source = plugin.source(spec)
        self._pod = pod

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=True, managed=True)

    async def get_metrics(self) -> Metrics:
        return await blocking(directory_metrics, self._path)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        payload = await self._plugin.payload(self._source, self._pod)
        if self._plugin.in_memory and not await self._host.mounts.is_mount_point(directory):
            await self._host.mounts.mount("tmpfs", directory, "tmpfs", ["mode=0755"])
        await blocking(write_payload, Path(directory), payload, fs_group)
