"""The volume plugins of a played cluster: its array's disks, and for what pods define themselves a directory.

Its controllers have all plugins that are installed besides, so that a claim's CSI driver is really called.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mooring.kube.objects import Pod, Volume
from mooring.simulation.parts.array_plugin import Array, ArrayPlugin, DirectoryMounter
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import VolumePlugin
from mooring.volumes.plugin_manager import PluginManager, load_plugins
from mooring.volumes.spec import VolumeSpec

PRETENDED = "mooring.dev/pretended"


class PretendedPlugin(VolumePlugin):
    """ConfigMaps, Secrets, emptyDirs, ... of pods on a node that is only played: a directory, with nothing in
    it."""

    _host: VolumeHost

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PRETENDED

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def can_support(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> DirectoryMounter:
        return self._at(spec.name, pod.uid)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> DirectoryMounter:
        return self._at(spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name))

    def _at(self, name: str, uid: str) -> DirectoryMounter:
        return DirectoryMounter(Path(self._host.get_pod_volume_dir(uid, PRETENDED, name)))


def of_nodes(array: Array) -> Callable[[VolumeHost], PluginManager]:
    """What makes the plugins of a played node."""
    return lambda host: PluginManager([ArrayPlugin(array), PretendedPlugin()], host)


def of_controllers(array: Array, host: VolumeHost) -> PluginManager:
    """The plugins of a controller."""
    return load_plugins(host, [ArrayPlugin(array)])
