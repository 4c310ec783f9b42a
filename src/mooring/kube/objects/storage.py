"""The group storage.k8s.io: classes, VolumeAttachments, CSI drivers and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, TypeVar

import msgspec
from msgspec.structs import force_setattr

from mooring.kube.objects.meta import LabelSelector, Object, Resource, Struct

T = TypeVar("T")


class TopologySelectorTerm(Struct, frozen=True):
    match_label_expressions: tuple[dict[str, Any], ...] = ()


class StorageClass(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    allow_volume_expansion: bool = False
    mount_options: tuple[str, ...] = ()
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class CSIStorageCapacity(Object, frozen=True):
    """How much a driver has for one StorageClass in one place. `maximum_volume_size`: of one volume."""

    RESOURCE = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None


class VolumeAttributesClass(Object, frozen=True):
    RESOURCE = Resource(
        "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False
    )
    driver_name: str = ""
    parameters: dict[str, str] = {}


class VolumeAttachmentSource(Struct, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: dict[str, Any] | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeError(Struct, frozen=True):
    time: str | None = None
    message: str = ""
    error_code: int | None = None


class VolumeAttachmentStatus(Struct, frozen=True):
    attached: bool = False
    attachment_metadata: dict[str, str] = {}
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


class TokenRequest(Struct, frozen=True):
    audience: str = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(Struct, frozen=True):
    attach_required: bool = True
    pod_info_on_mount: bool = False
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    volume_lifecycle_modes: tuple[str, ...] = ()
    requires_republish: bool = False
    storage_capacity: bool = False
    token_requests: tuple[TokenRequest, ...] = ()
    service_account_token_in_secrets: bool = False
    se_linux_mount: bool = False


class CSIDriver(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
    spec: CSIDriverSpec = CSIDriverSpec()


if TYPE_CHECKING:
    OrNull = tuple[T, ...]
else:
    OrNull = Optional[tuple[T, ...]]  # noqa: UP045 - takes an argument
"""What a real API server may give as null: lists that its Go types write even where they are not set."""


class VolumeNodeResources(Struct, frozen=True):
    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: OrNull[str] = ()
    allocatable: VolumeNodeResources | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "topology_keys", self.topology_keys or ())


class CSINodeSpec(Struct, frozen=True):
    drivers: OrNull[CSINodeDriver] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "drivers", self.drivers or ())


class CSINode(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
    spec: CSINodeSpec = CSINodeSpec()
