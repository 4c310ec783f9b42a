"""The objects that plugins make, each for one purpose: set up a volume for a pod, mount a
device, attach, create a volume.

The rules of the framework are in the package's docstring.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mooring.kube.objects import PersistentVolume
from mooring.volumes.errors import VolumeError
from mooring.volumes.spec import VolumeSpec

Attachment = Mapping[str, str]
"""What the storage tells the node about an attachment, as in a VolumeAttachment's `attachmentMetadata`."""
DEVICE_PATH = "devicePath"
"""The key under which a plugin gives the device's path on the node; shown in the Node's `volumesAttached`."""


@dataclass(frozen=True)
class Metrics:
    """The use of a volume: bytes and inodes."""

    capacity: int
    used: int
    available: int
    inodes: int = 0
    inodes_used: int = 0
    inodes_free: int = 0


class MetricsNotSupported(VolumeError):
    """The volume cannot tell its use."""


class MetricsProvider(ABC):
    """Tells how full a volume is."""

    @abstractmethod
    async def get_metrics(self) -> Metrics:
        """May be expensive. Raises MetricsNotSupported."""


class Volume(MetricsProvider):
    """A directory that a pod uses."""

    @abstractmethod
    def get_path(self) -> str:
        """The path on the node where the volume is, or will be, set up for the pod."""

    async def get_metrics(self) -> Metrics:
        raise MetricsNotSupported(f"{type(self).__name__} has no metrics")


@dataclass(frozen=True)
class Attributes:
    """What a container runtime must know about a set-up volume."""

    read_only: bool
    managed: bool
    """Whether the node agent owns the content, and so may change its owner and mode."""
    supports_selinux: bool = False


class Mounter(Volume):
    """Sets a volume up for a pod."""

    async def can_mount(self) -> None:
        """Called right before `set_up`; raises if this node lacks a program that is needed, naming it."""
        return

    @abstractmethod
    async def set_up(self, fs_group: int | None = None) -> None:
        """Makes the volume usable at `get_path()`, owned by group `fs_group` if given."""

    @abstractmethod
    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        """The same at `directory`, which may not exist yet."""

    @abstractmethod
    def get_attributes(self) -> Attributes: ...

    async def limit_exceeded(self) -> str | None:
        """Why the pod must be evicted for what it has written into the volume, or None. Called from
        time to time; may be expensive."""
        return None


class Unmounter(Volume):
    """Removes what a Mounter made. Knows only names, so that it also works after a restart."""

    @abstractmethod
    async def tear_down(self) -> None:
        """Unmounts at `get_path()` and removes every trace of `set_up`; data of the volume itself is kept,
        unless its life is the pod's (emptyDir)."""

    @abstractmethod
    async def tear_down_at(self, directory: str) -> None: ...


class DeviceMounter(ABC):
    """Mounts a device once for the node; pods get bind mounts of it."""

    @abstractmethod
    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        """The global mount point of this volume on this node."""

    @abstractmethod
    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        """Formats the device if it is provably blank, and mounts it. Raises `InvalidSpec` or
        `MountsError`."""


class DeviceUnmounter(ABC):
    """Undoes `DeviceMounter.mount_device`."""

    @abstractmethod
    async def unmount_device(self, device_mount_path: str) -> None:
        """Only after all bind mounts are gone: the caller asks `get_device_mount_refs` first."""


class BlockVolumeMapper(ABC):
    """Gives a raw device to a pod."""

    @abstractmethod
    def get_pod_device_map_path(self) -> str:
        """The symbolic link that leads the pod to the device."""

    @abstractmethod
    async def map_pod_device(self, device_path: str) -> None:
        """Makes the link. `device_path` is what `BlockVolumePlugin.set_up_device` gave."""


class BlockVolumeUnmapper(ABC):
    """Removes the link again."""

    @abstractmethod
    async def unmap_pod_device(self) -> None: ...


class Attacher(DeviceMounter):
    """Connects volumes with nodes."""

    @abstractmethod
    async def attach(self, spec: VolumeSpec, node_name: str) -> Attachment:
        """Attaches the volume to the node and returns what is needed there. Succeeds if it is attached there
        already. Raises `VolumeInUse` if an exclusive volume is attached elsewhere. Runs on a controller."""

    @abstractmethod
    async def volumes_are_attached(
        self, specs: Sequence[VolumeSpec], node_name: str
    ) -> Mapping[VolumeSpec, bool | Attachment]:
        """Returns what the storage says about each of `specs`: whether it is attached, or, if the storage
        tells, what `attach` would return of it now. Raises if the storage cannot be asked: then nothing is
        known."""

    @abstractmethod
    async def wait_for_attach(self, spec: VolumeSpec, attachment: Attachment, timeout_s: float) -> str:
        """Waits until the device is on this node and returns its path; `attachment` is what `attach` gave.
        Raises `DeviceNotAttached` after `timeout_s` seconds. Runs on the node."""

    async def verify_device(self, spec: VolumeSpec, device_path: str) -> None:
        """Raises `WrongDevice` unless the device at `device_path` is this volume. The last
        look before a mount."""
        return


class Detacher(DeviceUnmounter):
    """Disconnects volumes from nodes."""

    @abstractmethod
    async def detach(self, volume_name: str, node_name: str) -> None:
        """Detaches the volume that `VolumePlugin.get_volume_name` names. Returns when the storage says that
        it is detached; succeeds if it was not attached, or does not exist. Runs on a controller."""


class BulkVolumeVerifier(ABC):
    """Checks attachments on many nodes with few requests to the storage."""

    @abstractmethod
    async def bulk_verify_volumes(
        self, volumes_by_node: Mapping[str, Sequence[VolumeSpec]]
    ) -> Mapping[str, Mapping[VolumeSpec, bool | Attachment]]:
        """Returns by node what is attached, as `volumes_are_attached` does. If it raises, everything counts
        as still attached."""


class Provisioner(ABC):
    """Creates one volume, as asked for in the `VolumeOptions` it was made with."""

    @abstractmethod
    async def provision(self) -> PersistentVolume:
        """Creates the volume in the storage and returns the PersistentVolume to be created, complete but for
        `claimRef`. Called again with the same `pv_name`, it returns the same volume. Raises `InvalidSpec` if
        the class or claim asks for what cannot be."""


class Deleter(Volume):
    """Deletes one volume from the storage."""

    @abstractmethod
    async def delete(self) -> None:
        """Returns when the volume is gone; succeeds if it was gone. Raises `DeletedVolumeInUse` while it is
        attached, which is a Normal event on the PersistentVolume and another try later, not a failure."""


RecycleEventRecorder = Callable[[Literal["Normal", "Warning"], str], None]
"""Takes event type (Normal, Warning) and message; the caller puts it on the PersistentVolume
being recycled."""
