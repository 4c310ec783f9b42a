"""Which nodes and pods may have a volume at the same time: one node, several, or one pod only.

Pure. Upstream's rule (kube-controller-manager's attach/detach controller, `IsMultiAttachAllowed`), and
what the storage itself can do.
"""

from __future__ import annotations

from mooring.volumes.interfaces import AttachCapabilities
from mooring.volumes.migration import ONE_NODE_INLINE, migrated_spec
from mooring.volumes.spec import VolumeSpec

SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
ONE_POD_MODE = "ReadWriteOncePod"


def is_multi_attach_allowed(spec: VolumeSpec | None) -> bool:
    """Whether Kubernetes' rules let several nodes have the volume: a PersistentVolume without
    access modes, or with one that several nodes can share; a volume that a pod defines itself
    (except for some kinds of disks); an unknown volume."""
    if spec is None:
        return True
    if spec.persistent_volume is None:
        found = migrated_spec(spec)
        return found is None or found.driver not in ONE_NODE_INLINE
    modes = spec.persistent_volume.spec.access_modes
    return not modes or not SHARED_MODES.isdisjoint(modes)


def is_exclusive(spec: VolumeSpec, capabilities: AttachCapabilities) -> bool:
    """Whether the volume may be attached to one node at a time only: by the rules, or
    because the storage cannot do more."""
    return not is_multi_attach_allowed(spec) or not capabilities.multi_attach


def is_one_pod_only(spec: VolumeSpec) -> bool:
    """Whether one pod in the whole cluster may use the volume: ReadWriteOncePod is its only access mode."""
    return spec.persistent_volume is not None and tuple(spec.persistent_volume.spec.access_modes) == (
        ONE_POD_MODE,
    )
