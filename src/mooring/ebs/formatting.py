"""A class's parameters for a new file system, and the arguments of mkfs for them. Pure.

The controller checks a class's parameters with `check_format` and writes the result into the volume's
context. The node checks the context again, because any client may have written it and its values become
arguments of a program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.csi.errors import Code, CsiError

BLOCK_SIZE = "blocksize"
INODE_SIZE = "inodesize"
BYTES_PER_INODE = "bytesperinode"
NUMBER_OF_INODES = "numberofinodes"
BIGALLOC = "ext4bigalloc"
CLUSTER_SIZE = "ext4clustersize"
ENCRYPTION = "ext4encryptionsupport"
"""Keys of a class's parameters (case-insensitive there) and of a volume's context."""

SWITCHES = frozenset({BIGALLOC, ENCRYPTION})
KEYS = frozenset({BLOCK_SIZE, INODE_SIZE, BYTES_PER_INODE, NUMBER_OF_INODES, CLUSTER_SIZE}) | SWITCHES

PARTITION = "partition"
"""Key of a volume's context: the number of the partition to mount; 0 or absent: the whole device."""

DEFAULT_FS_TYPE = "ext4"
FS_TYPES = ("ext2", "ext3", "ext4", "xfs")

_EXT4_ONLY = frozenset({BIGALLOC, CLUSTER_SIZE, ENCRYPTION})
_REFUSED: Mapping[str, frozenset[str]] = {
    "ext2": _EXT4_ONLY,
    "ext3": _EXT4_ONLY,
    "ext4": frozenset(),
    "xfs": _EXT4_ONLY | {BYTES_PER_INODE, NUMBER_OF_INODES},
}
_SIZE = re.compile(r"[0-9]{1,20}[A-Za-z]?")
_PARTITION = re.compile(r"[0-9]{1,3}")

_EXT_FLAGS = {
    BLOCK_SIZE: "-b",
    INODE_SIZE: "-I",
    BYTES_PER_INODE: "-i",
    NUMBER_OF_INODES: "-N",
    CLUSTER_SIZE: "-C",
}
_EXT_FEATURES = {BIGALLOC: "bigalloc", ENCRYPTION: "encrypt"}
_XFS_FLAGS = {BLOCK_SIZE: "-b", INODE_SIZE: "-i"}
_LEGACY_XFS = ("-m", "bigtime=0,inobtcount=0,reflink=0", "-i", "nrext64=0")


def fs_type_of(requested: str) -> str:
    """The requested file system type, or ext4 if none is requested. Raises CsiError, INVALID_ARGUMENT."""
    if requested == "ntfs":
        raise _refused("file system ntfs is one of Windows nodes, which this driver does not serve")
    if requested and requested not in FS_TYPES:
        raise _refused(f"file system type {requested!r} is not known: choose one of {', '.join(FS_TYPES)}")
    return requested or DEFAULT_FS_TYPE


def check_format(parameters: Mapping[str, str], fs_type: str, block: bool) -> dict[str, str]:
    """The parameters about formatting, for the volume's context; other keys are ignored.

    A switch is on if it is exactly "true", otherwise it is left out. Raises CsiError, INVALID_ARGUMENT, for a
    raw block volume, for a parameter that the file system does not have, and for a value that is no size.
    """
    requested = {key.lower(): value for key, value in parameters.items() if key.lower() in KEYS}
    settings = {key: value for key, value in requested.items() if key not in SWITCHES or value == "true"}
    if settings and block:
        raise _refused(
            f"{', '.join(sorted(settings))}: a raw block volume has no file system to be formatted"
        )
    kind = fs_type_of(fs_type)
    if missing := sorted(settings.keys() & _REFUSED[kind]):
        raise _refused(f"{', '.join(missing)}: the file system {kind} does not have that")
    for key in settings.keys() - SWITCHES:
        if not _SIZE.fullmatch(settings[key]):
            raise _refused(
                f"{key} {settings[key]!r} is no size: give a number, with a unit's letter if need be"
            )
    if CLUSTER_SIZE in settings and BIGALLOC not in settings:
        raise _refused(f"{CLUSTER_SIZE} needs {BIGALLOC}: only then are there clusters")
    return settings


def mkfs_options(context: Mapping[str, str], fs_type: str, legacy_xfs: bool = False) -> tuple[str, ...]:
    """The arguments for mkfs of a volume with this context. Raises CsiError as `check_format` does.

    `legacy_xfs` leaves out the features that older kernels cannot mount (upstream's --legacy-xfs).
    """
    kind = fs_type_of(fs_type)
    requested = check_format(context, kind, block=False)
    if kind == "xfs":
        sizes = [
            part
            for key, flag in _XFS_FLAGS.items()
            if key in requested
            for part in (flag, f"size={requested[key]}")
        ]
        return (*sizes, *(_LEGACY_XFS if legacy_xfs else ()))
    values = [part for key, flag in _EXT_FLAGS.items() if key in requested for part in (flag, requested[key])]
    features = ",".join(
        name for key, name in _EXT_FEATURES.items() if key in requested
    )  # mke2fs heeds one -O only
    return (*values, *(("-O", features) if features else ()))


def partition_of(context: Mapping[str, str]) -> int:
    """The number of the partition to mount; 0 for the whole device. Raises CsiError, INVALID_ARGUMENT."""
    text = context.get(PARTITION, "") or "0"
    if not _PARTITION.fullmatch(text):
        raise _refused(
            f"{PARTITION} {text!r} is no number of a partition: 1, 2, ..., or 0 for the whole device"
        )
    return int(text)


def _refused(message: str) -> CsiError:
    return CsiError(Code.INVALID_ARGUMENT, message)
