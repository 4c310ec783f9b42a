"""Who may have a volume at the same time: one node, several, or one pod only.

Pure. Upstream's rule (`IsMultiAttachAllowed`, reference section 1.5), and what the storage itself can do.
"""

from __future__ import annotations

from mooring.volumes.interfaces import AttachCapabilities
from mooring.volumes.migration import ONE_NODE_INLINE, migrated_spec
from mooring.volumes.spec import VolumeSpec

SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
ONE_POD_MODE = "ReadWriteOncePod"


def is_multi_attach_allowed(spec: VolumeSpec | None) -> bool:
    """Whether Kubernetes' rules let several nodes have the volume. A PersistentVolume without access modes, or with one
    that several nodes can share, may be; so may a volume that a pod defines itself (but for some kinds of disks), and
    one that is not known."""
    if spec is None:
        return True
    if spec.persistent_volume is None:
        found = migrated_spec(spec)
        return found is None or found.driver not in ONE_NODE_INLINE
    modes = spec.persistent_volume.spec.access_modes
    return not modes or not SHARED_MODES.isdisjoint(modes)


def is_exclusive(spec: VolumeSpec, capabilities: AttachCapabilities) -> bool:
    """Whether the volume must be attached to one node at a time: the rules say so, or the storage can do no other."""
    return not is_multi_attach_allowed(spec) or not capabilities.multi_attach


def is_one_pod_only(spec: VolumeSpec) -> bool:
    """Whether one pod in the whole cluster may use the volume: ReadWriteOncePod is its only access mode."""
    return spec.persistent_volume is not None and tuple(spec.persistent_volume.spec.access_modes) == (ONE_POD_MODE,)
