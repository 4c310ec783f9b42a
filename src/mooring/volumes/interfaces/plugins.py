"""The kinds of plugins, by their abilities, and the values that are passed to and returned by them.

The rules of the framework are in the package's docstring.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mooring.kube.objects import (
    Node,
    PersistentVolumeClaim,
    Pod,
    SecretReference,
    TopologySelectorTerm,
)
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces.parts import (
    Attacher,
    BlockVolumeMapper,
    BlockVolumeUnmapper,
    Deleter,
    Detacher,
    DeviceMounter,
    DeviceUnmounter,
    Mounter,
    Provisioner,
    RecycleEventRecorder,
    Unmounter,
)
from mooring.volumes.names import ATTACHER_FINALIZER, volume_name_by_place
from mooring.volumes.spec import VolumeSpec


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that the storage keeps: `size` is the least a volume restored from it must have, in bytes
    (0: not known). One that is not `ready` is asked for again until it is."""

    handle: str
    size: int
    created: datetime
    ready: bool = True


@dataclass(frozen=True)
class SnapshotOptions:
    """How a snapshot is taken and deleted: the class's parameters, and where the storage's
    credentials are."""

    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    secret: SecretReference | None = None


@dataclass(frozen=True)
class Expansion:
    """The outcome of growing a volume: its size in bytes, and whether a node must grow the
    file system, too."""

    size: int
    on_node: bool


@dataclass(frozen=True)
class ContentSource:
    """Where a new volume's content comes from: a snapshot, or (a clone) another volume; by
    the storage's own names."""

    snapshot: str = ""
    volume: str = ""


@dataclass(frozen=True)
class VolumeOptions:
    """What `new_provisioner` is to make. `parameters` and `mount_options` are the StorageClass's."""

    pv_name: str
    """`pvc-<claim uid>`: the key that makes provisioning idempotent."""
    claim: PersistentVolumeClaim
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    content: ContentSource | None = None
    """The initial content of the volume; None: empty."""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    """The places that the class allows for its volumes; empty: anywhere."""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters of the claim's VolumeAttributesClass: those that can be changed later."""
    selected_node: Node | None = None
    """The node of the first pod (`WaitForFirstConsumer`), else None."""


class VolumePlugin(ABC):
    """One kind of volume. Methods without I/O are plain functions; specs are never changed."""

    @abstractmethod
    def init(self, host: VolumeHost) -> None:
        """Called exactly once, before everything else. Must not block; raising leaves the plugin out."""

    @abstractmethod
    def get_plugin_name(self) -> str:
        """`<namespace>/<name>` with exactly one slash; the namespace kubernetes.io is
        reserved for bundled plugins."""

    @abstractmethod
    def get_volume_name(self, spec: VolumeSpec) -> str:
        """Returns the name of the device or directory behind the spec, in a form that `Detacher.detach`
        takes. Raises `InvalidSpec` if the spec is not this plugin's."""

    @abstractmethod
    def can_support(self, spec: VolumeSpec) -> bool:
        """Whether the spec is this plugin's."""

    def drivers(self) -> Sequence[VolumePlugin]:
        """Further plugins that come with this one, asked for after `init`: drivers that stand
        behind it, each by its own name. They make, grow and copy those volumes for which
        `get_driver_name` gives their name."""
        return ()

    def found_plugins(self) -> Mapping[str, VolumePlugin]:
        """Plugins that this one has found on the machine, by name. Asked for at each look-up: they come, and
        are replaced. Each is a plugin like any other, initialised; one that is installed and has the same
        name takes precedence. One that is not there any more stays, and supports no spec."""
        return {}

    def what_is_missing(self, spec: VolumeSpec) -> str:
        """Why no plugin that this one could find supports the spec, and what to do; "" if it does not
        know."""
        return ""

    def get_driver_name(self, spec: VolumeSpec) -> str:
        """Returns the name of the plugin that makes, grows and copies the volume:
        this one, or a driver behind it."""
        return self.get_plugin_name()

    def requires_remount(self) -> bool:
        """Whether `set_up` is called repeatedly for a mounted volume, to update its content."""
        return False

    def is_named_by_object(self) -> bool:
        """Whether `get_volume_name` is the PersistentVolume's own name, which does not say what is behind it:
        one that was made anew may be of other storage."""
        return False

    def one_at_a_time(self) -> bool:
        """Whether what serves the volumes takes one call for a volume after the other, also for several
        pods."""
        return False

    def remount_period(self, spec: VolumeSpec) -> float | None:
        """After how many seconds `set_up` is called again although nothing that the volume shows is known to
        have changed, because it ages; None: never. Asked again each time."""
        return None

    @abstractmethod
    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> Mounter: ...

    @abstractmethod
    def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter: ...

    @abstractmethod
    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        """A spec from what is on disk after a restart: the directory name of a pod's volume, and its path. It
        may lack what is not needed to unmount. Raises `InvalidSpec` if that cannot be determined."""

    def supports_mount_option(self) -> bool:
        """Whether `mountOptions` of a PersistentVolume are honoured; a volume with options
        is refused if not."""
        return False

    def supports_selinux_mount(self, spec: VolumeSpec) -> bool:
        """Whether the volume's mounts on a node take the option `context`, an SELinux label for all files."""
        return False

    def supports_bulk_volume_verification(self) -> bool:
        """Whether `new_attacher` returns a `BulkVolumeVerifier`, too."""
        return False


class PersistentVolumePlugin(VolumePlugin):
    """Its volumes outlive pods."""

    @abstractmethod
    def get_access_modes(self) -> Sequence[str]:
        """The access modes that its volumes can have."""


class RecyclableVolumePlugin(VolumePlugin):
    """Its volumes can be emptied and used by another claim."""

    @abstractmethod
    async def recycle(self, pv_name: str, spec: VolumeSpec, event_recorder: RecycleEventRecorder) -> None: ...


class DeletableVolumePlugin(VolumePlugin):
    """Its volumes can be deleted from the storage when their claim is."""

    @abstractmethod
    def new_deleter(self, spec: VolumeSpec) -> Deleter: ...


class ProvisionableVolumePlugin(VolumePlugin):
    """It can create volumes; a StorageClass names it as its `provisioner`."""

    @abstractmethod
    def new_provisioner(self, options: VolumeOptions) -> Provisioner: ...


class DeviceMountableVolumePlugin(VolumePlugin):
    """Its volumes are mounted once for a node, then bound into pods."""

    def can_device_mount(self, spec: VolumeSpec) -> bool:
        return True

    @abstractmethod
    def new_device_mounter(self) -> DeviceMounter: ...

    @abstractmethod
    def new_device_unmounter(self) -> DeviceUnmounter: ...

    @abstractmethod
    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        """Mount points that still show the device mounted at `device_mount_path`, other than that one."""

    def get_volume_name_at(self, device_mount_path: str) -> str | None:
        """The name of the volume whose device is mounted there, from what is on disk; None if it is none of
        the plugin's. Asked for mounts below its directory of which nothing is recorded."""
        return volume_name_by_place(device_mount_path)


@dataclass(frozen=True)
class Served:
    """One way to a volume past this cluster: `name` in its storage, at `server` (`ADDRESS:PORT`)."""

    name: str
    server: str


@dataclass(frozen=True)
class AttachCapabilities:
    """What a storage guarantees about attachments. `refuses` and `revokes` are two
    properties (docs/protocol.md, "Words")."""

    refuses: bool
    """A second attach of an exclusive volume fails: the storage itself is the lock."""
    revokes: bool
    """After a detach the old node can never write again, whatever is still mounted or cached there."""
    multi_attach: bool
    """Several nodes may have the volume attached at once."""
    request_validity_s: float = 600.0
    """Seconds after which an unanswered request cannot take effect any more; 0 if it dies with its sender."""


class AttachableVolumePlugin(DeviceMountableVolumePlugin):
    """Its volumes must be attached to a node before they are mounted."""

    def can_attach(self, spec: VolumeSpec) -> bool:
        """Whether this volume of the plugin needs attaching at all."""
        return True

    def volume_limit(self) -> int | None:
        """How many volumes of the plugin this node takes at once; None: no limit is known. Asked on nodes."""
        return None

    @abstractmethod
    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """Pure: from the spec alone."""

    def served(self, spec: VolumeSpec) -> Sequence[Served]:
        """Returns every way in which a node reaches the volume: a node that is shut out of all of them is
        shut out of the volume. Empty: not known. Raises InvalidSpec."""
        return ()

    def finalizer(self) -> str:
        """Returns the finalizer that its VolumeAttachments have as long as the volume may be attached."""
        return ATTACHER_FINALIZER

    async def attach_notes(self, spec: VolumeSpec, node_name: str) -> Mapping[str, str]:
        """Returns what a detach will need even if volume and node are gone: annotations of the
        VolumeAttachment, stored before the attach. Raises NotAsked if it is not known yet."""
        return {}

    @abstractmethod
    def new_attacher(self) -> Attacher: ...

    @abstractmethod
    def new_detacher(self) -> Detacher: ...

    def attacher_of(self, notes: Mapping[str, str]) -> Attacher:
        """The attacher for an attachment with these annotations."""
        return self.new_attacher()

    def detacher_of(self, notes: Mapping[str, str], spec: VolumeSpec | None) -> Detacher:
        """The detacher of an attachment with these annotations; `spec`: None if nothing
        defines the volume any more."""
        return self.new_detacher()

    def new_device_mounter(self) -> DeviceMounter:
        return self.new_attacher()

    def new_device_unmounter(self) -> DeviceUnmounter:
        return self.new_detacher()


class BlockVolumePlugin(VolumePlugin):
    """Its volumes can be given to pods as raw devices."""

    def get_global_map_path(self, spec: VolumeSpec) -> str:
        """Where the volume is set up on this node: what `tear_down_device` gets if it is not known whether
        `set_up_device` has ended. "" if a set up that has not ended leaves nothing for it to undo."""
        return ""

    @abstractmethod
    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        """The block device of the volume on this node, links resolved; `device_path` is where
        it was attached, "" for a volume that is not. Before any pod gets it. Raises
        `InvalidSpec` if the volume has no block device."""

    async def tear_down_device(self, device_path: str) -> None:
        """Undoes `set_up_device` when no pod has the device any more. `device_path` is what
        `set_up_device` returned, or would have: then it is `get_global_map_path`'s. Idempotent."""
        return

    @abstractmethod
    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> BlockVolumeMapper: ...

    @abstractmethod
    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> BlockVolumeUnmapper: ...


class SnapshottableVolumePlugin(VolumePlugin):
    """Its volumes can be kept as they are at one moment. Volumes go by the names that
    `get_volume_name` gives."""

    @abstractmethod
    async def create_snapshot(self, volume_name: str, name: str, options: SnapshotOptions) -> Snapshot:
        """Takes the snapshot `name`; the same one when called again. A volume in use is kept as after a power
        failure at that moment, or better. Raises `VolumeNotFound`."""

    @abstractmethod
    async def get_snapshot(self, handle: str, options: SnapshotOptions) -> Snapshot:
        """A snapshot that the storage has already. Raises `SnapshotNotFound`."""

    @abstractmethod
    async def delete_snapshot(self, handle: str, options: SnapshotOptions) -> None:
        """Returns when the snapshot is gone; succeeds if it was. Volumes restored from it are not touched."""


class ExpandableVolumePlugin(VolumePlugin):
    """Its volumes can grow."""

    @abstractmethod
    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        """Grows the volume in the storage to at least `new_size` bytes. Runs on a controller. Idempotent: for
        a volume that is large enough it changes nothing and returns the same."""


class NodeExpandableVolumePlugin(VolumePlugin):
    """Its volumes' file systems are grown on the node, after their devices."""

    @abstractmethod
    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        """Grows the file system that is mounted there to the size of its device. Idempotent.
        Runs on the node."""


class ModifiableVolumePlugin(VolumePlugin):
    """Its volumes' attributes (a VolumeAttributesClass) can be changed while they are used."""

    @abstractmethod
    async def modify_volume(self, spec: VolumeSpec, attributes: Mapping[str, str]) -> None:
        """Gives the volume these attributes. Idempotent. Raises `InvalidSpec` for what
        cannot be. Runs on a controller."""
