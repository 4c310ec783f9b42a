"""The plugin `kubernetes.io/photon-pd`: a persistent disk that Photon Controller attaches to a machine.

Settings, on controllers alone: `target` (`https://HOST:PORT`, with what comes before `/disks` in the API's
paths), `project` (its identifier), `tokenFile`, `caFile`. A node's name is its machine's. Whether the service
refuses a second machine is not relied on: the lock keeps it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    PhotonPersistentDiskVolumeSource,
    Pod,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import AttachableVolumePlugin, AttachCapabilities, PersistentVolumePlugin
from mooring.volumes.plugins.fc.devices import Devices
from mooring.volumes.plugins.photon.attaching import PhotonAttacher
from mooring.volumes.plugins.photon.controller import Controller, api
from mooring.volumes.plugins.photon.source import PLUGIN_NAME, disk, disk_at, global_path, written
from mooring.volumes.pod_directory import BindMounter, BindUnmounter
from mooring.volumes.spec import VolumeSpec


class PhotonMounter(BindMounter):
    """Shows the mounted disk to one pod."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod) -> None:
        of = disk(spec)
        super().__init__(host, PLUGIN_NAME, spec, pod, str(global_path(host, of)), of.read_only)
        self._fs_type = of.fs_type

    async def can_mount(self) -> None:
        await self._host.mounts.can_make(self._fs_type)


class PhotonPlugin(AttachableVolumePlugin, PersistentVolumePlugin):
    """The plugin."""

    _host: VolumeHost
    _controller: Controller

    def __init__(self, controller: Controller | None = None, devices: Devices | None = None) -> None:
        self._given, self._devices = controller, devices or Devices()

    def init(self, host: VolumeHost) -> None:
        self._host = host
        settings = host.settings(PLUGIN_NAME)
        of = api(settings, host.check_leading)
        self._controller = self._given or Controller(of, settings.get("project", ""))

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return disk(spec).id

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def supports_mount_option(self) -> bool:
        return True

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod")

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """A disk is for one machine at a time; for a volume that a pod defines itself, the service alone sees
        to that."""
        return AttachCapabilities(refuses=False, revokes=False, multi_attach=True)

    def new_attacher(self) -> PhotonAttacher:
        return PhotonAttacher(self._host, self._controller, self._devices)

    def new_detacher(self) -> PhotonAttacher:
        return self.new_attacher()

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return await self._host.mounts.get_device_mount_refs(device_mount_path)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> PhotonMounter:
        return PhotonMounter(self._host, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> BindUnmounter:
        return BindUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        plugin = self._host.get_plugin_dir(PLUGIN_NAME)
        refs = await self._host.mounts.get_device_mount_refs(mount_path)
        below = (ref for ref in refs if Path(ref).is_relative_to(plugin))
        found = next((of for ref in below if (of := disk_at(ref)) is not None), None)
        if found is None:
            raise InvalidSpec(f"{mount_path} shows no disk that is mounted below {plugin}")
        spec = PersistentVolumeSpec(photon_persistent_disk=PhotonPersistentDiskVolumeSource(pd_id=found.id))
        return VolumeSpec.of_persistent_volume(
            PersistentVolume(metadata=ObjectMeta(name=volume_name), spec=spec)
        )


def plugin() -> PhotonPlugin:
    """The factory that the entry point names."""
    return PhotonPlugin()
