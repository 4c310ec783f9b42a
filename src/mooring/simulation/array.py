"""A disk array that is only played, and its plugin. The array knows the truth: what is attached, mounted, and was.

Its plugin implements the production interfaces. What happens is told to `journal`; how long it takes and what fails is
set from outside. Requests are carried out by the array (`carry_out`), so they go on if who sent them dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.kube.objects import FlexVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.volumes.errors import (
    DeletedVolumeInUse,
    DeviceStillInUse,
    InvalidSpec,
    StorageRefused,
    VolumeError,
    VolumeInUse,
    VolumeNotFound,
)
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    AttachCapabilities,
    Attacher,
    Attributes,
    DeletableVolumePlugin,
    Deleter,
    Detacher,
    Mounter,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    Provisioner,
    Unmounter,
    VolumeOptions,
)
from mooring.volumes.matching import PROVISIONED_BY
from mooring.volumes.spec import VolumeSpec

DISK = "example.com/disk"


class Unanswered(VolumeError):
    """The array did what it was asked for, or not: its answer was lost."""


def nobody(actor: str, kind: str, /, **fields: Any) -> None:
    """A journal that nobody reads."""


async def at_once(work: Coroutine[Any, Any, None]) -> None:
    """Carries out a request as part of its sender, and dies with it."""
    await work


class Array:
    """Disks, each attached to one node at most: the array refuses a second. `harms` should stay empty."""

    def __init__(self) -> None:
        self.disks: set[str] = set()
        self.attached: dict[str, str] = {}  # disk -> node
        self.epochs: dict[str, int] = {}  # disk -> how often it was attached
        self.mounted: set[tuple[str, str]] = set()  # disk, node
        self.content: dict[str, list[str]] = {}  # disk -> what was written to it and synced
        self.history: list[tuple[str, str, str]] = []
        self.refused: list[tuple[str, str, str]] = []
        self.harms: list[str] = []
        self.attach_s = self.attach_reply_s = self.detach_s = 0.0
        self.unmount_s: dict[str, float] = {}  # node -> how long an unmount takes there
        self.failure: Exception | None = None
        self.limit: int | None = None  # how many disks a node takes
        self.unanswered: Callable[[], bool] = lambda: False
        self.quota: int | None = None  # how many disks it attaches to a node
        self.denies: set[str] = set()  # nodes of which it says that nothing is attached there
        self.mount_failure: dict[str, Exception] = {}  # node -> what every mount there raises, after it was made
        self.busy = self.busiest = 0
        self.journal: Callable[..., None] = nobody
        self.carry_out: Callable[[Coroutine[Any, Any, None]], Awaitable[None]] = at_once

    async def attach(self, disk: str, node: str) -> None:
        await self.carry_out(self._attach(disk, node))
        if self.unanswered():
            raise Unanswered(f"attaching {disk} to {node}: no answer")

    async def detach(self, disk: str, node: str) -> None:
        await self.carry_out(self._detach(disk, node))
        if self.unanswered():
            raise Unanswered(f"detaching {disk} from {node}: no answer")

    async def _attach(self, disk: str, node: str) -> None:
        self.busy += 1
        self.busiest = max(self.busy, self.busiest)
        self.journal("array", "truth.begin", act="attach", volume=disk, node=node)
        try:
            await asyncio.sleep(self.attach_s)
            self._do_attach(disk, node)
            await asyncio.sleep(self.attach_reply_s)
        finally:
            self.busy -= 1
            self.journal("array", "truth.end", act="attach", volume=disk, node=node)

    def _do_attach(self, disk: str, node: str) -> None:
        if self.failure is not None:
            raise self.failure
        if disk not in self.disks:
            raise VolumeNotFound(disk)
        holder = self.attached.get(disk, node)
        if holder != node:
            self.refused.append(("attach", disk, node))
            raise VolumeInUse(disk, node, [holder])
        if disk in self.attached:
            return
        if self.quota is not None and sum(each == node for each in self.attached.values()) >= self.quota:
            raise StorageRefused(f"node {node} has {self.quota} disks, which is the quota")
        self.history.append(("attach", disk, node))
        self.attached[disk] = node
        self.epochs[disk] = self.epochs.get(disk, 0) + 1
        self.journal("array", "truth.attached", volume=disk, node=node, epoch=self.epochs[disk])

    async def _detach(self, disk: str, node: str) -> None:
        self.journal("array", "truth.begin", act="detach", volume=disk, node=node)
        try:
            await asyncio.sleep(self.detach_s)
            self._do_detach(disk, node)
        finally:
            self.journal("array", "truth.end", act="detach", volume=disk, node=node)

    def _do_detach(self, disk: str, node: str) -> None:
        if self.failure is not None:
            raise self.failure
        if self.attached.get(disk) != node:
            return
        if (disk, node) in self.mounted:
            self.refused.append(("detach", disk, node))
            raise DeviceStillInUse(disk, node, ["a mount"])
        self.history.append(("detach", disk, node))
        del self.attached[disk]
        self.journal("array", "truth.detached", volume=disk, node=node, epoch=self.epochs[disk])

    def says_attached(self, disk: str, node: str) -> bool:
        """Its word for it, which need not be true."""
        if self.failure is not None:
            raise self.failure
        return self.attached.get(disk) == node and node not in self.denies

    def create(self, disk: str) -> None:
        """Idempotent."""
        if disk not in self.disks:
            self.disks.add(disk)
            self.journal("array", "truth.created", volume=disk)

    def delete(self, disk: str) -> None:
        """Idempotent. Raises `DeletedVolumeInUse`."""
        if disk in self.attached:
            raise DeletedVolumeInUse(disk, [self.attached[disk]])
        if disk in self.disks:
            self.disks.discard(disk)
            self.content.pop(disk, None)
            self.journal("array", "truth.deleted", volume=disk)

    def mount(self, disk: str, node: str) -> None:
        attached = self.attached.get(disk) == node
        if not attached:
            self.harms.append(f"{disk} was mounted on {node}, but is attached to {self.attached.get(disk)}")
        self.mounted.add((disk, node))
        self.journal(node, "truth.mounted", volume=disk, node=node, attached=attached, epoch=self.epochs.get(disk, 0))

    def unmount(self, disk: str, node: str) -> None:
        if (disk, node) in self.mounted:
            self.mounted.discard((disk, node))
            self.journal(node, "truth.unmounted", volume=disk, node=node)

    def write(self, disk: str, node: str, word: str) -> None:
        """A process on the node reads what is there, and writes and syncs a word."""
        known = self.content.setdefault(disk, [])
        fit = (disk, node) in self.mounted and self.attached.get(disk) == node
        self.journal(node, "truth.written", volume=disk, node=node, word=word, fit=fit, found=len(known))
        known.append(word)

    def power_off(self, node: str) -> None:
        """What a machine without power has mounted is not mounted any more."""
        for disk in sorted(disk for disk, each in self.mounted if each == node):
            self.unmount(disk, node)

    def holders(self, disk: str) -> list[str]:
        """The nodes that had the disk, one after the other; fails if one got it before the other had lost it."""
        holder, holders = None, list[str]()
        for act, each, node in self.history:
            if each == disk and act == "attach":
                assert holder is None, f"{disk} attached to {node} and {holder}: {self.history}"
                holder = node
                holders.append(node)
            elif each == disk:
                assert holder == node
                holder = None
        return holders


class DirectoryMounter(Mounter, Unmounter):
    """A directory that stands for a pod's volume."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_path(self) -> str:
        return str(self._path)

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=False, managed=True)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self.get_path())

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        self._path.mkdir(parents=True, exist_ok=True)

    async def tear_down(self) -> None:
        await self.tear_down_at(self.get_path())

    async def tear_down_at(self, directory: str) -> None:
        if self._path.exists():
            self._path.rmdir()


class _Attacher(Attacher, Detacher):
    def __init__(self, plugin: ArrayPlugin) -> None:
        self._plugin, self._array = plugin, plugin.array

    async def attach(self, spec: VolumeSpec, node_name: str) -> str:
        disk = self._plugin.get_volume_name(spec)
        await self._array.attach(disk, node_name)
        return f"/dev/{disk}"

    async def detach(self, volume_name: str, node_name: str) -> None:
        await self._array.detach(volume_name, node_name)

    async def volumes_are_attached(self, specs: Sequence[VolumeSpec], node_name: str) -> Mapping[VolumeSpec, bool]:
        return {spec: self._array.says_attached(self._plugin.get_volume_name(spec), node_name) for spec in specs}

    async def wait_for_attach(self, spec: VolumeSpec, device_path: str, timeout_s: float) -> str:
        return device_path

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return str(self._plugin.host.get_plugin_dir(DISK) / "mounts" / self._plugin.get_volume_name(spec))

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        node = self._plugin.host.node_name
        self._array.mount(Path(device_mount_path).name, node)
        if (failure := self._array.mount_failure.get(node)) is not None:
            raise failure

    async def unmount_device(self, device_mount_path: str) -> None:
        node = self._plugin.host.node_name
        await asyncio.sleep(self._array.unmount_s.get(node, 0.0))
        self._array.unmount(Path(device_mount_path).name, node)


class _Provisioner(Provisioner):
    def __init__(self, array: Array, options: VolumeOptions) -> None:
        self._array, self._options = array, options

    async def provision(self) -> PersistentVolume:
        options = self._options
        if "bad" in options.parameters:
            raise InvalidSpec("the parameter bad is not known")
        self._array.create(options.pv_name)
        return PersistentVolume(
            metadata=ObjectMeta(name=options.pv_name, annotations={PROVISIONED_BY: DISK}),
            spec=PersistentVolumeSpec(
                capacity={"storage": options.claim.spec.resources.requests["storage"]},
                access_modes=options.claim.spec.access_modes,
                persistent_volume_reclaim_policy=options.reclaim_policy,
                storage_class_name=options.claim.spec.storage_class_name or "",
                flex_volume=FlexVolumeSource(driver=DISK, options={"disk": options.pv_name}),
            ),
        )


class _Deleter(Deleter):
    def __init__(self, array: Array, disk: str) -> None:
        self._array, self._disk = array, disk

    def get_path(self) -> str:
        raise NotImplementedError

    async def delete(self) -> None:
        self._array.delete(self._disk)


class ArrayPlugin(PersistentVolumePlugin, AttachableVolumePlugin, ProvisionableVolumePlugin, DeletableVolumePlugin):
    """The plugin of the array, for controllers and nodes."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def init(self, host: VolumeHost) -> None:
        self.host = host

    def get_plugin_name(self) -> str:
        return DISK

    def can_support(self, spec: VolumeSpec) -> bool:
        source = spec.persistent_volume.spec if spec.persistent_volume else spec.volume
        return source is not None and source.flex_volume is not None and source.flex_volume.driver == DISK

    def get_volume_name(self, spec: VolumeSpec) -> str:
        source = spec.persistent_volume.spec if spec.persistent_volume else spec.volume
        if source is None or source.flex_volume is None or "disk" not in source.flex_volume.options:
            raise InvalidSpec(f"volume {spec.name} does not name its disk")
        return source.flex_volume.options["disk"]

    def volume_limit(self) -> int | None:
        return self.array.limit

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        return AttachCapabilities(refuses=True, revokes=False, multi_attach=False, request_validity_s=0)

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce",)

    def new_attacher(self) -> _Attacher:
        return _Attacher(self)

    def new_detacher(self) -> _Attacher:
        return _Attacher(self)

    def new_provisioner(self, options: VolumeOptions) -> Provisioner:
        return _Provisioner(self.array, options)

    def new_deleter(self, spec: VolumeSpec) -> Deleter:
        return _Deleter(self.array, self.get_volume_name(spec))

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        return []

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> Mounter:
        return DirectoryMounter(self.host.get_pod_volume_dir(pod.uid, DISK, spec.name))

    def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter:
        return DirectoryMounter(self.host.get_pod_volume_dir(pod_uid, DISK, spec_name))

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec(volume_name)
