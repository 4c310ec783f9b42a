"""`kubernetes.io/configmap`: a ConfigMap's keys as files, updated together when the ConfigMap changes."""

from __future__ import annotations

from mooring.kube.objects import ConfigMapVolumeSource, Pod, Volume
from mooring.volumes.key_files import config_map_contents, key_files
from mooring.volumes.payload import Payload
from mooring.volumes.plugins.api_content import ContentPlugin
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/configmap"


class ConfigMapPlugin(ContentPlugin[ConfigMapVolumeSource]):
    """The plugin."""

    name = PLUGIN_NAME

    def find(self, volume: Volume) -> ConfigMapVolumeSource | None:
        return volume.config_map

    async def payload(self, source: ConfigMapVolumeSource, pod: Pod) -> Payload:
        where = f"ConfigMap {pod.namespace}/{source.name}"
        found = await self.host.get_config_map(pod.namespace, source.name)
        contents = config_map_contents(found, where) if found is not None else None
        return key_files(contents, source.items, source.default_mode, source.optional, where)

    def stand_in(self, name: str) -> Volume:
        return Volume(name=name, config_map=ConfigMapVolumeSource(name=name))

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return f"{spec.name}/{self.source(spec).name}"


def plugin() -> ConfigMapPlugin:
    """The factory that the entry point names."""
    return ConfigMapPlugin()
