"""Names, parameters and capabilities in requests about disks. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from mooring.csi.driver.capacity import Sizes
from mooring.csi.driver.mount_options import flags_refusal
from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts.filesystem import TYPES
from mooring.volumes.plugins.disk_source import Parameters, parameters

DRIVER_NAME = "disk.mooring.dev"
TOPOLOGY_KEY = "topology.disk.mooring.dev/machine"
"""The machine that has the array; its disks are reachable from that machine's nodes only."""

FS_TYPE = "fsType"
"""Key of a volume's context: the file system type of its class."""

SIZES = Sizes()
SHARED_MODES = frozenset(
    {
        AccessMode.MULTI_NODE_READER_ONLY,
        AccessMode.MULTI_NODE_SINGLE_WRITER,
        AccessMode.MULTI_NODE_MULTI_WRITER,
    }
)
_READABLE = re.compile(r"(?!sha256-)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def volume_id(name: str) -> str:
    """The disk's (or snapshot's) name in the array for a CSI name, which may hold anything."""
    return name if _READABLE.fullmatch(name) else "sha256-" + hashlib.sha256(name.encode()).hexdigest()[:40]


def parameters_of(given: Mapping[str, str]) -> Parameters:
    """The parameters of a class, without what Kubernetes' provisioners add. Raises InvalidSpec, CsiError."""
    found = parameters(
        {key: value for key, value in given.items() if not key.startswith("csi.storage.k8s.io/")}
    )
    check_mount(found.fs_type)
    return found


def refusal(capability: csi.VolumeCapability, exclusive: bool) -> str:
    """Why a disk does not support the capability; empty if it does."""
    mode = capability.access_mode.mode
    if mode in SHARED_MODES and exclusive:
        return f"{AccessMode.Name(mode)}: the disk is exclusive to one node (parameter exclusive)"
    if mode in SHARED_MODES and mode != AccessMode.MULTI_NODE_READER_ONLY and capability.HasField("mount"):
        return (
            f"{AccessMode.Name(mode)}: a file system may be mounted by one node only: ask for a block volume"
        )
    if capability.HasField("mount"):
        return _refused_mount(capability.mount.fs_type, capability.mount.mount_flags)
    return ""


def check_use(capabilities: Iterable[csi.VolumeCapability], exclusive: bool) -> None:
    """Raises CsiError unless a disk supports all of these capabilities."""
    if reasons := [reason for capability in capabilities if (reason := refusal(capability, exclusive))]:
        raise CsiError(Code.INVALID_ARGUMENT, "; ".join(reasons))


def check_mount(fs_type: str, options: Sequence[str] = ()) -> None:
    """Raises CsiError unless a disk can be mounted with this file system type and these options."""
    if reason := _refused_mount(fs_type, options):
        raise CsiError(Code.INVALID_ARGUMENT, reason)


def _refused_mount(fs_type: str, options: Sequence[str]) -> str:
    if fs_type and fs_type not in TYPES:
        return f"file system type {fs_type!r} is not known: choose one of {', '.join(sorted(TYPES))}"
    return flags_refusal(options)
