"""A raw device for a pod: a symbolic link in the pod's directory, which the runtime shows at its devicePath.

The link holds nothing open. That the device is not taken away while a process has it open is
up to the storage.
"""

from __future__ import annotations

import os
import stat

from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import BlockVolumeMapper, BlockVolumeUnmapper


class PodDevice(BlockVolumeMapper, BlockVolumeUnmapper):
    """Maker and remover of the link; both need names only."""

    def __init__(self, host: VolumeHost, plugin: str, spec_name: str, pod_uid: str) -> None:
        self._path = host.get_pod_device_path(pod_uid, plugin, spec_name)

    def get_pod_device_map_path(self) -> str:
        return str(self._path)

    async def map_pod_device(self, device_path: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not self._path.is_symlink() or os.readlink(self._path) != device_path:
            self._path.unlink(missing_ok=True)
            self._path.symlink_to(device_path)

    async def unmap_pod_device(self) -> None:
        self._path.unlink(missing_ok=True)


def block_device(path: str, volume: str) -> str:
    """The block device that `path` leads to. Raises InvalidSpec if it is none, OSError if
    there is nothing."""
    device = os.path.realpath(path)
    if not stat.S_ISBLK(os.stat(device).st_mode):
        raise InvalidSpec(
            f"volume {volume} has volumeMode Block, but {path} is not a block device: use Filesystem"
        )
    return device
