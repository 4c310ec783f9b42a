"""`example.org/shelf`: boxes on a shelf that all nodes reach, each held by one node at a time.

A box is a folder; who holds it is in its file `holder`, which only one can make. A StorageClass:
`provisioner: example.org/shelf`. Settings of the process: `shelf`, the folder of all boxes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mooring.kube.objects import FlexVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.volumes.errors import DeletedVolumeInUse, InvalidSpec, VolumeInUse, VolumeNotFound
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    DEVICE_PATH,
    AttachableVolumePlugin,
    AttachCapabilities,
    Attacher,
    Attachment,
    Attributes,
    DeletableVolumePlugin,
    Deleter,
    Detacher,
    Mounter,
    ProvisionableVolumePlugin,
    Provisioner,
    Unmounter,
    VolumeOptions,
)
from mooring.volumes.matching import PROVISIONED_BY
from mooring.volumes.spec import VolumeSpec

NAME = "example.org/shelf"


class ShelfPlugin(AttachableVolumePlugin, ProvisionableVolumePlugin, DeletableVolumePlugin):
    def init(self, host: VolumeHost) -> None:
        self.host = host
        self.shelf = Path(host.settings(NAME).get("shelf", "/nowhere"))

    def get_plugin_name(self) -> str:
        return NAME

    def can_support(self, spec: VolumeSpec) -> bool:
        return self._source(spec) is not None

    def get_volume_name(self, spec: VolumeSpec) -> str:
        source = self._source(spec)
        if source is None or not source.options.get("box"):
            raise InvalidSpec(f"volume {spec.name} names no box: add flexVolume.options.box")
        return source.options["box"]

    def _source(self, spec: VolumeSpec) -> FlexVolumeSource | None:
        where = spec.persistent_volume.spec if spec.persistent_volume else spec.volume
        source = where.flex_volume if where else None
        return source if source and source.driver == NAME else None

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        return AttachCapabilities(refuses=True, revokes=False, multi_attach=False, request_validity_s=0)

    def new_attacher(self) -> ShelfAttacher:
        return ShelfAttacher(self)

    def new_detacher(self) -> ShelfAttacher:
        return ShelfAttacher(self)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return []

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> ShelfMounter:
        path = self.host.get_pod_volume_dir(pod.uid, NAME, spec.name)
        return ShelfMounter(path, self.shelf / self.get_volume_name(spec) / "content")

    def new_unmounter(self, spec_name: str, pod_uid: str) -> ShelfMounter:
        return ShelfMounter(self.host.get_pod_volume_dir(pod_uid, NAME, spec_name), Path())

    def new_provisioner(self, options: VolumeOptions) -> ShelfProvisioner:
        return ShelfProvisioner(self.shelf, options)

    def new_deleter(self, spec: VolumeSpec) -> ShelfDeleter:
        return ShelfDeleter(self.shelf / self.get_volume_name(spec))

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        box = Path(os.readlink(mount_path)).parent.name
        source = FlexVolumeSource(driver=NAME, options={"box": box})
        pv = PersistentVolume(
            metadata=ObjectMeta(name=volume_name), spec=PersistentVolumeSpec(flex_volume=source)
        )
        return VolumeSpec.of_persistent_volume(pv)


class ShelfAttacher(Attacher, Detacher):
    def __init__(self, plugin: ShelfPlugin) -> None:
        self.plugin = plugin

    def _holder(self, box: str) -> Path:
        return self.plugin.shelf / box / "holder"

    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        box = self.plugin.get_volume_name(spec)
        if not (self.plugin.shelf / box).is_dir():
            raise VolumeNotFound(box)
        try:
            _write_new(self._holder(box), node_name)
        except FileExistsError:
            if (other := self._holder(box).read_text()) != node_name:
                raise VolumeInUse(box, node_name, [other]) from None
        return {DEVICE_PATH: str(self.plugin.shelf / box / "content")}

    async def detach(self, volume_name: str, node_name: str) -> None:
        holder = self._holder(volume_name)
        if holder.exists() and holder.read_text() == node_name:
            holder.unlink()

    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool]:
        holders = {spec: self._holder(self.plugin.get_volume_name(spec)) for spec in specs}
        return {spec: holder.exists() and holder.read_text() == node_name for spec, holder in holders.items()}

    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        return attachment[DEVICE_PATH]

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(self.plugin.host.get_plugin_dir(NAME) / "mounts" / self.plugin.get_volume_name(spec))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        return

    async def unmount_device(self, device_mount_path: str) -> None:
        return


def _write_new(path: Path, text: str) -> None:
    """Raises FileExistsError for all but the first."""
    with open(path, "x") as file:
        file.write(text)


class ShelfMounter(Mounter, Unmounter):
    def __init__(self, path: Path, content: Path) -> None:
        self.path, self.content = path, content

    def get_path(self) -> str:
        return str(self.path)

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=False, managed=True)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self.get_path(), fs_group)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        if not os.path.islink(directory):
            os.symlink(self.content, directory)

    async def tear_down(self) -> None:
        await self.tear_down_at(self.get_path())

    async def tear_down_at(self, directory: str) -> None:
        Path(directory).unlink(missing_ok=True)


class ShelfProvisioner(Provisioner):
    def __init__(self, shelf: Path, options: VolumeOptions) -> None:
        self.shelf, self.options = shelf, options

    async def provision(self) -> PersistentVolume:
        name, claim = self.options.pv_name, self.options.claim
        (self.shelf / name / "content").mkdir(parents=True, exist_ok=True)
        spec = PersistentVolumeSpec(
            capacity={"storage": claim.spec.resources.requests["storage"]},
            access_modes=claim.spec.access_modes,
            persistent_volume_reclaim_policy=self.options.reclaim_policy,
            storage_class_name=claim.spec.storage_class_name or "",
            flex_volume=FlexVolumeSource(driver=NAME, options={"box": name}),
        )
        return PersistentVolume(metadata=ObjectMeta(name=name, annotations={PROVISIONED_BY: NAME}), spec=spec)


class ShelfDeleter(Deleter):
    def __init__(self, box: Path) -> None:
        self.box = box

    def get_path(self) -> str:
        return ""

    async def delete(self) -> None:
        if (self.box / "holder").exists():
            raise DeletedVolumeInUse(self.box.name, [(self.box / "holder").read_text()])
        shutil.rmtree(self.box, ignore_errors=True)
