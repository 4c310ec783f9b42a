"""How a request of the node service wants a volume: raw or with a file system, its type and options. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.capabilities import check_capabilities
from mooring.ebs.formatting import check_format, fs_type_of, mkfs_options, partition_of


@dataclass(frozen=True)
class Use:
    """How a volume is used on a node."""

    block: bool = False
    fs_type: str = ""
    options: tuple[str, ...] = ()
    """Options of the mount."""
    format_options: tuple[str, ...] = ()
    """Arguments for mkfs."""
    partition: int = 0

    @property
    def read_only(self) -> bool:
        return "ro" in self.options


def use_of(capability: csi.VolumeCapability, context: Mapping[str, str], legacy_xfs: bool = False) -> Use:
    """The use that a capability and the volume's context describe. Raises CsiError, INVALID_ARGUMENT."""
    check_capabilities([capability])
    partition = partition_of(context)
    if capability.HasField("block"):
        check_format(context, "", block=True)
        return Use(block=True, partition=partition)
    fs_type = fs_type_of(capability.mount.fs_type)
    return Use(
        fs_type=fs_type,
        options=_options(fs_type, capability.mount.mount_flags),
        format_options=mkfs_options(context, fs_type, legacy_xfs),
        partition=partition,
    )


def _options(fs_type: str, flags: Iterable[str]) -> tuple[str, ...]:
    """The mount options. xfs gets nouuid: a volume from a snapshot has the file system's UUID of the
    original, and both may be mounted on one node."""
    more = ("nouuid",) if fs_type == "xfs" else ()
    return tuple(dict.fromkeys((*flags, *more)))
