"""`kubernetes.io/rbd`: images of Ceph clusters, in pods and PersistentVolumes (`rbd`).

What is as with other disks of a network storage is in `granted_disks`. Whatever is written is mapped
exclusively: the cluster refuses a second node itself. Nothing is decided here: sources are read by `source`,
and images mapped and let go of by `images`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from mooring.kube.objects import PersistentVolumeSpec, RBDVolumeSource
from mooring.this_boot import boot_id
from mooring.volumes.interfaces import Served
from mooring.volumes.plugins.ceph.cluster import read_key
from mooring.volumes.plugins.granted_disks import GrantedDiskPlugin
from mooring.volumes.plugins.rbd.devices import Devices
from mooring.volumes.plugins.rbd.images import Images
from mooring.volumes.plugins.rbd.notes import Notes
from mooring.volumes.plugins.rbd.source import (
    PLUGIN_NAME,
    Image,
    global_path,
    image,
    image_at,
    volume_name,
    written,
)
from mooring.volumes.spec import VolumeSpec


class RBDPlugin(GrantedDiskPlugin):
    """The plugin."""

    thing, grown = "image", "grow the image (`rbd resize`)"

    @cached_property
    def _images(self) -> Images:
        """Made when first needed: a controller has no directory for them."""
        notes = Notes(self._host.get_plugin_dir(PLUGIN_NAME), boot_id())
        return Images(notes, Devices(), self._host.node_name)

    @property
    def connected(self) -> Images:
        return self._images

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return volume_name(image(spec))

    def get_volume_name_at(self, device_mount_path: str) -> str | None:
        found = image_at(device_mount_path)
        return volume_name(found) if found is not None else None

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def disk(self, spec: VolumeSpec) -> Image:
        return image(spec)

    def place(self, spec: VolumeSpec, *, block: bool = False) -> Path:
        return global_path(self._host, image(spec), block=block)

    async def connect(self, spec: VolumeSpec, path: str, *, block: bool, in_use: bool) -> str:
        wanted = image(spec)
        key = await read_key(self._host, wanted.cluster)
        return await self._images.connect(wanted, path, key, block=block, in_use=in_use)

    async def size(self, spec: VolumeSpec, path: str) -> tuple[str, int]:
        return await self._images.size(path)

    def served(self, spec: VolumeSpec) -> Sequence[Served]:
        """The image at each monitor that the volume names: they are of one cluster, and keep one list of whom
        it serves."""
        wanted = image(spec)
        return [Served(f"{wanted.pool}/{wanted.name}", str(each)) for each in wanted.cluster.monitors]

    def source_at(self, path: str) -> PersistentVolumeSpec | None:
        if (found := image_at(path)) is None:
            return None
        monitors = (str(found.cluster.monitors[0]),)
        return PersistentVolumeSpec(rbd=RBDVolumeSource(monitors=monitors, pool=found.pool, image=found.name))


def plugin() -> RBDPlugin:
    """The factory that the entry point names."""
    return RBDPlugin()
