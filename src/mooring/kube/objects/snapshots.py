"""The group snapshot.storage.k8s.io, as the CSI community defines it: snapshots, their contents and
classes."""

from __future__ import annotations

from mooring.kube.objects.meta import Object, ObjectReference, Resource, Struct

GROUP = "snapshot.storage.k8s.io"
BEING_DELETED = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
"""On a content, as upstream has it: its VolumeSnapshot is being deleted, and no claim is waited for any more
that is to be made of it; so the storage's snapshot may go with the content."""


class VolumeSnapshotClass(Object, frozen=True):
    RESOURCE = Resource(GROUP, "v1", "volumesnapshotclasses", "VolumeSnapshotClass", namespaced=False)
    driver: str = ""
    deletion_policy: str = "Delete"
    parameters: dict[str, str] = {}


class VolumeSnapshotSource(Struct, frozen=True):
    persistent_volume_claim_name: str | None = None
    volume_snapshot_content_name: str | None = None


class VolumeSnapshotSpec(Struct, frozen=True):
    source: VolumeSnapshotSource = VolumeSnapshotSource()
    volume_snapshot_class_name: str | None = None


class SnapshotError(Struct, frozen=True):
    time: str | None = None
    message: str = ""


class VolumeSnapshotStatus(Struct, frozen=True):
    bound_volume_snapshot_content_name: str | None = None
    creation_time: str | None = None
    ready_to_use: bool = False
    restore_size: str | int | None = None
    error: SnapshotError | None = None


class VolumeSnapshot(Object, frozen=True):
    RESOURCE = Resource(GROUP, "v1", "volumesnapshots", "VolumeSnapshot")
    spec: VolumeSnapshotSpec = VolumeSnapshotSpec()
    status: VolumeSnapshotStatus = VolumeSnapshotStatus()


class VolumeSnapshotContentSource(Struct, frozen=True):
    volume_handle: str | None = None
    snapshot_handle: str | None = None


class VolumeSnapshotContentSpec(Struct, frozen=True):
    deletion_policy: str = ""
    driver: str = ""
    source: VolumeSnapshotContentSource = VolumeSnapshotContentSource()
    volume_snapshot_class_name: str | None = None
    volume_snapshot_ref: ObjectReference = ObjectReference()


class VolumeSnapshotContentStatus(Struct, frozen=True):
    """`creation_time` is in nanoseconds since 1970, `restore_size` in bytes."""

    snapshot_handle: str | None = None
    creation_time: int | None = None
    ready_to_use: bool = False
    restore_size: int | None = None
    error: SnapshotError | None = None


class VolumeSnapshotContent(Object, frozen=True):
    RESOURCE = Resource(GROUP, "v1", "volumesnapshotcontents", "VolumeSnapshotContent", namespaced=False)
    spec: VolumeSnapshotContentSpec = VolumeSnapshotContentSpec()
    status: VolumeSnapshotContentStatus = VolumeSnapshotContentStatus()
