"""`kubernetes.io/configmap`: a ConfigMap's keys as files, updated together when the ConfigMap changes."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from mooring.kube.objects import ConfigMap, ConfigMapVolumeSource, KeyToPath, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.volumes.directories import remove_tree
from mooring.volumes.errors import ContentMissing, InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Mounter, Unmounter, VolumePlugin
from mooring.volumes.payload import Payload, PayloadFile, write_payload
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/configmap"
DEFAULT_MODE = 0o644


def make_payload(source: ConfigMapVolumeSource, config_map: ConfigMap | None, namespace: str) -> Payload:
    """Pure: the files that the volume shows. Raises ContentMissing if something that is not optional is missing."""
    where = f"ConfigMap {namespace}/{source.name}"
    if config_map is None:
        if source.optional:
            return {}
        raise ContentMissing(f"{where} does not exist: create it, or mark the volume as optional")
    contents = {key: text.encode() for key, text in config_map.data.items()} | _binary(config_map, where)
    default = DEFAULT_MODE if source.default_mode is None else source.default_mode
    items = source.items or tuple(KeyToPath(key=key, path=key) for key in contents)
    missing = [item.key for item in items if item.key not in contents]
    if missing and not source.optional:
        raise ContentMissing(f"{where} has no key {', '.join(missing)}: add it, or mark the volume as optional")
    return {
        item.path: PayloadFile(contents[item.key], default if item.mode is None else item.mode)
        for item in items
        if item.key in contents
    }


def _binary(config_map: ConfigMap, where: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(text, validate=True) for key, text in config_map.binary_data.items()}
    except binascii.Error as error:
        raise InvalidSpec(f"{where} has binaryData that is not base64: {error}") from error


class ConfigMapMounter(Mounter):
    """Writes the files; called again and again, it follows the ConfigMap."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod) -> None:
        self._host = host
        self._source = _source(spec)
        self._namespace = pod.namespace
        self._path = str(host.get_pod_volume_dir(pod.uid, PLUGIN_NAME, spec.name))

    def get_path(self) -> str:
        return self._path

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=True, managed=True)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self._path, fs_group)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        config_map = await self._host.get_config_map(self._namespace, self._source.name)
        payload = make_payload(self._source, config_map, self._namespace)
        await blocking(write_payload, Path(directory), payload, fs_group)


class ConfigMapUnmounter(Unmounter):
    """Removes the files."""

    def __init__(self, host: VolumeHost, spec_name: str, pod_uid: str) -> None:
        self._path = str(host.get_pod_volume_dir(pod_uid, PLUGIN_NAME, spec_name))

    def get_path(self) -> str:
        return self._path

    async def tear_down(self) -> None:
        await self.tear_down_at(self._path)

    async def tear_down_at(self, directory: str) -> None:
        await blocking(remove_tree, directory)


class ConfigMapPlugin(VolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return f"{spec.name}/{_source(spec).name}"

    def can_support(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.config_map is not None

    def requires_remount(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> ConfigMapMounter:
        return ConfigMapMounter(self._host, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> ConfigMapUnmounter:
        return ConfigMapUnmounter(self._host, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, config_map=ConfigMapVolumeSource(name=volume_name)))


def _source(spec: VolumeSpec) -> ConfigMapVolumeSource:
    if spec.volume is None or spec.volume.config_map is None:
        raise InvalidSpec(f"volume {spec.name} is not a configMap")
    return spec.volume.config_map


def plugin() -> ConfigMapPlugin:
    """The factory that the entry point names."""
    return ConfigMapPlugin()
