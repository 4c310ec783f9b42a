"""The interfaces of the volume plugin framework: what plugins implement and what controllers
and node agents call.

The names and rules are those of Kubernetes' framework (docs/origins.md); what blocks
there is a coroutine here. A plugin derives from `VolumePlugin` and from the extended kinds whose abilities it
has; callers look for an ability through `PluginManager`. No plugin, controller or node agent is known here.

Every operation is idempotent: it may be called again after a crash, at any point. **An attach or
detach that raises anything but `StorageRefused`, `NotAsked` or `InvalidSpec`
(`mooring.volumes.errors`) has an unknown outcome.**
"""

from __future__ import annotations

from mooring.volumes.interfaces.parts import (
    DEVICE_PATH,
    Attacher,
    Attachment,
    Attributes,
    BlockVolumeMapper,
    BlockVolumeUnmapper,
    BulkVolumeVerifier,
    Deleter,
    Detacher,
    DeviceMounter,
    DeviceUnmounter,
    Metrics,
    MetricsNotSupported,
    MetricsProvider,
    Mounter,
    Provisioner,
    RecycleEventRecorder,
    Unmounter,
    Volume,
)
from mooring.volumes.interfaces.plugins import (
    AttachableVolumePlugin,
    AttachCapabilities,
    BlockVolumePlugin,
    ContentSource,
    DeletableVolumePlugin,
    DeviceMountableVolumePlugin,
    ExpandableVolumePlugin,
    Expansion,
    ModifiableVolumePlugin,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    RecyclableVolumePlugin,
    Served,
    Snapshot,
    SnapshotOptions,
    SnapshottableVolumePlugin,
    VolumeOptions,
    VolumePlugin,
)

__all__ = [
    "DEVICE_PATH",
    "AttachCapabilities",
    "AttachableVolumePlugin",
    "Attacher",
    "Attachment",
    "Attributes",
    "BlockVolumeMapper",
    "BlockVolumePlugin",
    "BlockVolumeUnmapper",
    "BulkVolumeVerifier",
    "ContentSource",
    "DeletableVolumePlugin",
    "Deleter",
    "Detacher",
    "DeviceMountableVolumePlugin",
    "DeviceMounter",
    "DeviceUnmounter",
    "ExpandableVolumePlugin",
    "Expansion",
    "Metrics",
    "MetricsNotSupported",
    "MetricsProvider",
    "ModifiableVolumePlugin",
    "Mounter",
    "NodeExpandableVolumePlugin",
    "PersistentVolumePlugin",
    "ProvisionableVolumePlugin",
    "Provisioner",
    "RecyclableVolumePlugin",
    "RecycleEventRecorder",
    "Served",
    "Snapshot",
    "SnapshotOptions",
    "SnapshottableVolumePlugin",
    "Unmounter",
    "Volume",
    "VolumeOptions",
    "VolumePlugin",
]
