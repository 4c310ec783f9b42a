"""The CSI specification's rules about requests, as data. `validation` applies them.

Source: the specification's proto comments (REQUIRED, size limits) and "Size Limits". Where the specification
lets a driver accept more (empty mutable_parameters of ControllerModifyVolume, long secrets), these rules do.
"""

from __future__ import annotations

from collections.abc import Mapping

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "CreateVolumeRequest": ("name", "volume_capabilities"),
    "SnapshotSource": ("snapshot_id",),
    "VolumeSource": ("volume_id",),
    "VolumeContentSource": ("type",),
    "VolumeCapability": ("access_type", "access_mode"),
    "AccessMode": ("mode",),
    "DeleteVolumeRequest": ("volume_id",),
    "ControllerPublishVolumeRequest": ("volume_id", "node_id", "volume_capability"),
    "ControllerUnpublishVolumeRequest": ("volume_id",),
    "ValidateVolumeCapabilitiesRequest": ("volume_id", "volume_capabilities"),
    "ControllerGetVolumeRequest": ("volume_id",),
    "ControllerModifyVolumeRequest": ("volume_id",),
    "ControllerExpandVolumeRequest": ("volume_id", "capacity_range"),
    "CreateSnapshotRequest": ("source_volume_id", "name"),
    "DeleteSnapshotRequest": ("snapshot_id",),
    "GetSnapshotRequest": ("snapshot_id",),
    "NodeStageVolumeRequest": ("volume_id", "staging_target_path", "volume_capability"),
    "NodeUnstageVolumeRequest": ("volume_id", "staging_target_path"),
    "NodePublishVolumeRequest": ("volume_id", "target_path", "volume_capability"),
    "NodeUnpublishVolumeRequest": ("volume_id", "target_path"),
    "NodeGetVolumeStatsRequest": ("volume_id", "volume_path"),
    "NodeExpandVolumeRequest": ("volume_id", "volume_path"),
    "CreateVolumeGroupSnapshotRequest": ("name", "source_volume_ids"),
    "DeleteVolumeGroupSnapshotRequest": ("group_snapshot_id", "snapshot_ids"),
    "GetVolumeGroupSnapshotRequest": ("group_snapshot_id", "snapshot_ids"),
}
"""Fields (or oneofs) that a message must have, by the message's name. An enum's 0 and an empty list count as
missing."""

STRING_BYTES = 128
"""The general limit of a string, in bytes."""

MAP_BYTES = 4096
"""The general limit of a map, keys and values together, and of mount_flags, in bytes."""

LONGER_STRINGS: Mapping[str, int] = {
    "node_id": 256,
    "staging_target_path": 4096,
    "target_path": 4096,
    "volume_path": 4096,
    "starting_token": 4096,
}
"""Other limits in bytes, by the field's name: the specification's own, or the system's (PATH_MAX)."""

NOT_NEGATIVE = frozenset({"required_bytes", "limit_bytes", "max_entries"})

IN_FLIGHT: Mapping[str, tuple[str, ...]] = {
    "CreateVolume": ("name",),
    "DeleteVolume": ("volume_id",),
    "ControllerPublishVolume": ("volume_id",),
    "ControllerUnpublishVolume": ("volume_id",),
    "ControllerExpandVolume": ("volume_id",),
    "ControllerModifyVolume": ("volume_id",),
    "CreateSnapshot": ("name",),
    "DeleteSnapshot": ("snapshot_id",),
    "CreateVolumeGroupSnapshot": ("name",),
    "DeleteVolumeGroupSnapshot": ("group_snapshot_id",),
    "NodeStageVolume": ("volume_id",),
    "NodeUnstageVolume": ("volume_id",),
    "NodePublishVolume": ("volume_id", "target_path"),
    "NodeUnpublishVolume": ("volume_id", "target_path"),
    "NodeExpandVolume": ("volume_id",),
}
"""The fields that name the object that a method changes: one operation at a time on it, others are ABORTED. A
volume may be published at several paths at once, but not while it is being staged, unstaged or expanded."""
