"""`kubernetes.io/downward-api`: fields of the pod as files, which follow changes of its
labels and annotations."""

from __future__ import annotations

from mooring.kube.objects import DownwardAPIVolumeSource, Pod, Volume
from mooring.volumes.downward_api import downward_files
from mooring.volumes.payload import Payload
from mooring.volumes.plugins.api_content import ContentPlugin

PLUGIN_NAME = "kubernetes.io/downward-api"


class DownwardAPIPlugin(ContentPlugin[DownwardAPIVolumeSource]):
    """The plugin."""

    name = PLUGIN_NAME

    def find(self, volume: Volume) -> DownwardAPIVolumeSource | None:
        return volume.downward_api

    async def payload(self, source: DownwardAPIVolumeSource, pod: Pod) -> Payload:
        return downward_files(source.items, source.default_mode, pod, self.host.allocatable)

    def stand_in(self, name: str) -> Volume:
        return Volume(name=name, downward_api=DownwardAPIVolumeSource())


def plugin() -> DownwardAPIPlugin:
    """The factory that the entry point names."""
    return DownwardAPIPlugin()
