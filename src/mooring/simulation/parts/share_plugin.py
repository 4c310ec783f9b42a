"""A share of a file server on a played machine: mounted once for the node, and shown to each of its pods, as
what a CSI driver stages whose CSIDriver says `attachRequired: false`. No controller attaches it.

As a kernel does, it refuses to unmount what is still shown, and to show what is not mounted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mooring.kube.objects import Pod
from mooring.kube.objects.volumes import NFSVolumeSource, Volume
from mooring.simulation.parts.array_plugin import DirectoryMounter
from mooring.simulation.parts.storage import Array
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DeviceMountableVolumePlugin, DeviceMounter, DeviceUnmounter
from mooring.volumes.names import escape_plugin_name
from mooring.volumes.spec import VolumeSpec

SHARE = "example.com/share"
OF_PLUGIN = escape_plugin_name(SHARE)


def shares_at(root: Path) -> Iterator[Path]:
    """Where shares are mounted on the machine with that root directory."""
    yield from sorted((root / "plugins" / OF_PLUGIN / "mounts").glob("*"))


def lose_shares(root: Path) -> None:
    """They are gone with the machine's power."""
    for path in shares_at(root):
        path.rmdir()


class _OfNode(DeviceMounter, DeviceUnmounter):
    def __init__(self, array: Array, host: VolumeHost) -> None:
        self._array, self._host = array, host

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(self._host.get_plugin_dir(SHARE) / "mounts" / _share(spec))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        await self._array.mounting(self._host.node_name)
        Path(device_mount_path).mkdir(parents=True, exist_ok=True)
        if (failure := self._array.mount_failure.get(self._host.node_name)) is not None:
            raise failure

    async def unmount_device(self, device_mount_path: str) -> None:
        path = Path(device_mount_path)
        if shown := [*self._host.pods_dir().glob(f"*/volumes/{OF_PLUGIN}/{path.name}")]:
            raise VolumeError(f"{path.name} is busy: {shown[0]} shows it")
        if path.exists():
            path.rmdir()


class _OfPod(DirectoryMounter):
    def __init__(self, array: Array, host: VolumeHost, pod_uid: str, name: str) -> None:
        super().__init__(Path(host.get_pod_volume_dir(pod_uid, SHARE, name)))
        self._array, self._node = array, host.node_name
        self._source = host.get_plugin_dir(SHARE) / "mounts" / name

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if not self._source.exists():
            raise VolumeError(f"{self._source.name} is not mounted on {self._node}")
        await super().set_up_at(directory, fs_group)
        if (failure := self._array.set_up_failure.get(self._node)) is not None:
            raise failure


class SharePlugin(DeviceMountableVolumePlugin):
    """A pod names a share by the name of its volume. `array`: whose faults are those of the server, too."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return SHARE

    def can_support(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.nfs is not None

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return _share(spec)

    def new_device_mounter(self) -> _OfNode:
        return _OfNode(self._array, self._host)

    def new_device_unmounter(self) -> _OfNode:
        return _OfNode(self._array, self._host)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return []

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> _OfPod:
        return _OfPod(self._array, self._host, pod.uid, spec.name)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> _OfPod:
        return _OfPod(self._array, self._host, pod_uid, spec_name)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        source = NFSVolumeSource(server="files", path=f"/{volume_name}")
        return VolumeSpec.of_volume(Volume(name=volume_name, nfs=source))


def _share(spec: VolumeSpec) -> str:
    if spec.volume is None or spec.volume.nfs is None:
        raise InvalidSpec(f"volume {spec.name} is no share")
    return spec.volume.nfs.path.removeprefix("/")
