"""`kubernetes.io/rbd`: images of Ceph clusters, in pods and PersistentVolumes (`rbd`).

The node maps the image, inside `mount_device` or `set_up_device`. A PersistentVolume for one node at a time
is granted to it first (`volumes.granted`); any other is not attached, as in upstream. Whatever is written is
mapped exclusively: the cluster refuses a second node itself. Nothing is decided here: sources are read by
`source`, and images mapped and let go of by `images`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from mooring.kube.objects import ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod, RBDVolumeSource
from mooring.volumes.errors import InvalidSpec, StorageRefused, VolumeError
from mooring.volumes.granted import Granted, GrantedVolumePlugin
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    BlockVolumePlugin,
    ExpandableVolumePlugin,
    Expansion,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
)
from mooring.volumes.matching import capacity
from mooring.volumes.plugins.ceph.cluster import read_key
from mooring.volumes.plugins.rbd.devices import Devices
from mooring.volumes.plugins.rbd.images import Images
from mooring.volumes.plugins.rbd.notes import BOOT, Notes
from mooring.volumes.plugins.rbd.source import (
    PLUGIN_NAME,
    global_path,
    image,
    image_at,
    volume_name,
    written,
)
from mooring.volumes.pod_device import PodDevice, block_device
from mooring.volumes.pod_directory import BindMounter, BindUnmounter
from mooring.volumes.spec import VolumeSpec


class RBDAttacher(Granted):
    """Maps the image and mounts it; unmounts it and lets go of it. `images` are asked for on nodes alone."""

    def __init__(self, host: VolumeHost, images: Callable[[], Images]) -> None:
        self._host = host
        self._images = images

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(global_path(self._host, image(spec)))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        wanted = image(spec)
        mounted = await self._host.mounts.is_mount_point(device_mount_path)
        key = await read_key(self._host, wanted.cluster)
        device = await self._images().connect(wanted, device_mount_path, key, block=False, in_use=mounted)
        options = (*spec.mount_options, *(("ro",) if wanted.read_only else ()))
        await self._host.mounts.format_and_mount(device, device_mount_path, wanted.fs_type, options)

    async def unmount_device(self, device_mount_path: str) -> None:
        await self._host.mounts.remove_mount_point(device_mount_path)
        await self._images().release(device_mount_path)


class RBDMounter(BindMounter):
    """Shows the mounted image to one pod."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod) -> None:
        self._image = image(spec)
        path = str(global_path(host, self._image))
        super().__init__(host, PLUGIN_NAME, spec, pod, path, self._image.read_only)

    async def can_mount(self) -> None:
        await self._host.mounts.can_make(self._image.fs_type)


class RBDPlugin(
    GrantedVolumePlugin,
    BlockVolumePlugin,
    PersistentVolumePlugin,
    ExpandableVolumePlugin,
    NodeExpandableVolumePlugin,
):
    """The plugin."""

    @cached_property
    def _images(self) -> Images:
        """Made when first needed: a controller has no directory for them."""
        notes = Notes(self._host.get_plugin_dir(PLUGIN_NAME), BOOT.read_text().strip())
        return Images(notes, Devices(), self._host.node_name)

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return volume_name(image(spec))

    def get_volume_name_at(self, device_mount_path: str) -> str | None:
        found = image_at(device_mount_path)
        return volume_name(found) if found is not None else None

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def supports_mount_option(self) -> bool:
        return True

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany")

    def new_attacher(self) -> RBDAttacher:
        return RBDAttacher(self._host, lambda: self._images)

    def new_detacher(self) -> RBDAttacher:
        return RBDAttacher(self._host, lambda: self._images)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return await self._host.mounts.get_device_mount_refs(device_mount_path)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> RBDMounter:
        return RBDMounter(self._host, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> BindUnmounter:
        return BindUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        """Nothing here can grow an image: who has grown it says so in the PersistentVolume, and a node
        looks."""
        said = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        if said < new_size:
            raise StorageRefused(
                f"volume {spec.name} is to have {new_size} bytes, and its PersistentVolume says {said}: grow the image "
                f"(`rbd resize`), then write its size into spec.capacity of the PersistentVolume"
            )
        return Expansion(said, on_node=True)

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        wanted = capacity(spec.persistent_volume) if spec.persistent_volume is not None else 0
        device, size = await self._images.size(device_mount_path)
        if size < wanted:
            raise VolumeError(
                f"volume {spec.name} has {wanted} bytes by its PersistentVolume, and its image has {size}: grow the "
                f"image (`rbd resize`)"
            )
        await self._host.mounts.resize(device, device_mount_path)

    # --- raw devices

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        wanted = image(spec)
        path = str(global_path(self._host, wanted, block=True))
        key = await read_key(self._host, wanted.cluster)
        given = await self._images.has(path)
        device = await self._images.connect(wanted, path, key, block=True, in_use=given)
        return block_device(device, spec.name)

    async def tear_down_device(self, device_path: str) -> None:
        path = await self._images.block_path(device_path)
        if path is not None:
            await self._images.release(path)

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec.name, pod.uid)

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> PodDevice:
        return PodDevice(self._host, PLUGIN_NAME, spec_name, pod_uid)

    # --- after a restart

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        plugin = self._host.get_plugin_dir(PLUGIN_NAME)
        refs = await self._host.mounts.get_device_mount_refs(mount_path)
        found = next((at for ref in refs if Path(ref).is_relative_to(plugin) and (at := image_at(ref))), None)
        if found is None:
            raise InvalidSpec(f"{mount_path} shows no image that is mounted below {plugin}")
        source = RBDVolumeSource(
            monitors=(str(found.cluster.monitors[0]),), pool=found.pool, image=found.name
        )
        spec = PersistentVolumeSpec(rbd=source)
        return VolumeSpec.of_persistent_volume(
            PersistentVolume(metadata=ObjectMeta(name=volume_name), spec=spec)
        )


def plugin() -> RBDPlugin:
    """The factory that the entry point names."""
    return RBDPlugin()
