"""What may be asked of a disk: names, sizes, ways of use, mount options, pages of lists. Pure.

Raises CsiError with the code that the specification has for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts.errors import MountsError
from mooring.mounts.filesystem import filesystem_type
from mooring.volumes.plugins.disk_source import Parameters, parameters

DRIVER_NAME = "disk.mooring.dev"
TOPOLOGY_KEY = "topology.disk.mooring.dev/machine"
"""Disks are reachable from the nodes of the machine that has the array."""

FS_TYPE = "fsType"
"""Key of a volume's context: the file system that its class asks for."""

MIB = 1024 * 1024
DEFAULT_BYTES = 1024 * MIB
LARGEST_BYTES = 16 * 1024 * 1024 * MIB
"""The largest file that common file systems hold: 16 TiB."""

SHARED_MODES = frozenset(
    {AccessMode.MULTI_NODE_READER_ONLY, AccessMode.MULTI_NODE_SINGLE_WRITER, AccessMode.MULTI_NODE_MULTI_WRITER}
)
_READABLE = re.compile(r"(?!sha256-)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOUNT_OPTION = re.compile(r"[a-z][a-z0-9_]*(=[A-Za-z0-9._+:-]+)?")
_NOT_AN_OPTION = frozenset(
    {"bind", "rbind", "move", "remount", "loop", "offset", "sizelimit", "user", "users", "owner", "group", "helper"}
)
"""What mount(8) understands as another thing to do, and not as a way to mount this device."""

_Item = TypeVar("_Item")
_TOKEN = "after:"


def volume_id(name: str) -> str:
    """The disk's (or snapshot's) name in the array for a CSI name, which may hold anything."""
    return name if _READABLE.fullmatch(name) else "sha256-" + hashlib.sha256(name.encode()).hexdigest()[:40]


def parameters_of(given: Mapping[str, str]) -> Parameters:
    """The parameters of a class, without what Kubernetes' provisioners add. Raises InvalidSpec, CsiError."""
    found = parameters({key: value for key, value in given.items() if not key.startswith("csi.storage.k8s.io/")})
    check_use([mounting(found.fs_type)], exclusive=False)
    return found


def mounting(fs_type: str, options: Sequence[str] = ()) -> csi.VolumeCapability:
    """A use by one node, as a file system of that type."""
    mount = csi.VolumeCapability.MountVolume(fs_type=fs_type, mount_flags=options)
    return csi.VolumeCapability(
        mount=mount, access_mode=csi.VolumeCapability.AccessMode(mode=AccessMode.SINGLE_NODE_WRITER)
    )


def size_of(wanted: csi.CapacityRange, least: int = 0) -> int:
    """Bytes for a new size, of what was asked and at least `least`: whole MiB if the limit lets them be."""
    asked = max(wanted.required_bytes, least) or min(DEFAULT_BYTES, wanted.limit_bytes or DEFAULT_BYTES)
    rounded = -(-asked // MIB) * MIB
    size = rounded if not wanted.limit_bytes or rounded <= wanted.limit_bytes else asked
    if size > LARGEST_BYTES or 0 < wanted.limit_bytes < size or size < MIB:
        raise CsiError(
            Code.OUT_OF_RANGE, f"{size} bytes: a disk has from {MIB} to {wanted.limit_bytes or LARGEST_BYTES} bytes"
        )
    return size


def fits(size: int, wanted: csi.CapacityRange) -> bool:
    """Whether a disk of that size is what was asked for."""
    return size >= wanted.required_bytes and (not wanted.limit_bytes or size <= wanted.limit_bytes)


def refusal(capability: csi.VolumeCapability, exclusive: bool) -> str:
    """Why a disk cannot be used in this way; empty if it can."""
    mode = capability.access_mode.mode
    if mode in SHARED_MODES and exclusive:
        return f"{AccessMode.Name(mode)}: the disk is exclusive to one node (parameter exclusive)"
    if mode in SHARED_MODES and mode != AccessMode.MULTI_NODE_READER_ONLY and capability.HasField("mount"):
        return f"{AccessMode.Name(mode)}: a file system may be mounted by one node only: ask for a block volume"
    if capability.HasField("mount"):
        return _refused_mount(capability.mount)
    return ""


def check_use(capabilities: Iterable[csi.VolumeCapability], exclusive: bool) -> None:
    """Raises CsiError unless a disk can be used in all of these ways."""
    if reasons := [reason for capability in capabilities if (reason := refusal(capability, exclusive))]:
        raise CsiError(Code.INVALID_ARGUMENT, "; ".join(reasons))


def _refused_mount(mount: csi.VolumeCapability.MountVolume) -> str:
    if mount.fs_type:
        try:
            filesystem_type(mount.fs_type)
        except MountsError as error:
            return str(error)
    bad = [flag for flag in mount.mount_flags if not _is_mount_option(flag)]
    return f"{len(bad)} of the mount flags cannot be used: only options like noatime or commit=5" if bad else ""


def _is_mount_option(flag: str) -> bool:
    return bool(_MOUNT_OPTION.fullmatch(flag)) and flag.partition("=")[0] not in _NOT_AN_OPTION


def page(
    items: Sequence[tuple[str, _Item]], request: csi.ListVolumesRequest | csi.ListSnapshotsRequest
) -> tuple[list[tuple[str, _Item]], str]:
    """One page of items in the order of their names, and the token of the next. The token names the last item, so that
    it is good whatever comes and goes meanwhile."""
    token = request.starting_token
    if token and not token.startswith(_TOKEN):
        raise CsiError(Code.ABORTED, f"starting_token {token!r} is none of this driver's: start without one")
    rest = [item for item in items if not token or item[0] > token.removeprefix(_TOKEN)]
    shown = rest[: request.max_entries or len(rest)]
    return shown, _TOKEN + shown[-1][0] if len(shown) < len(rest) else ""
