"""The seam between Mooring and the kernel: what a node does to its mounts, as one protocol.

`mooring.mounts.host.HostMounts` does it for real; a simulation puts its own implementation here.
All methods are coroutines, because mounts block. All paths are absolute. Every method is
idempotent where its docstring says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


@dataclass(frozen=True)
class Mount:
    """One line of a mount table (`/proc/PID/mountinfo`)."""

    mount_id: int
    parent_id: int
    device: tuple[int, int]
    """Major and minor number of the device, also for bind mounts of it."""
    root: str
    """The path inside the file system that is mounted: "/" unless it is a bind mount of a directory."""
    mount_point: str
    options: frozenset[str]
    fs_type: str
    source: str
    super_options: frozenset[str] = frozenset()


class Content(Enum):
    """What a device holds."""

    BLANK = "blank"
    """Provably empty: no signature, and zeros where signatures would be. Only a blank device
    is ever formatted."""
    FILESYSTEM = "filesystem"
    PARTITION_TABLE = "partition table"
    UNKNOWN = "unknown data"
    """Not blank, and nothing that we recognise."""


@dataclass(frozen=True)
class Probe:
    """What `Mounts.probe` found. `fs_type` is set for file systems (and LVM, swap, ...:
    whatever has a signature)."""

    content: Content
    fs_type: str = ""

    def __str__(self) -> str:
        return (
            f"a file system of type {self.fs_type}"
            if self.content is Content.FILESYSTEM
            else f"{self.content.value} {self.fs_type}".strip()
        )


class Mounts(Protocol):
    """Mounts, file systems and devices of one machine. Raises `mooring.mounts.errors.MountsError`."""

    async def mount_table(self, pid: int | None = None) -> tuple[Mount, ...]:
        """The mount table as process `pid` sees it (default: this process), in the kernel's order."""
        ...

    async def is_mount_point(self, path: str) -> bool:
        """Whether something is mounted at exactly `path`. False when `path` does not exist."""
        ...

    async def mount(self, source: str, target: str, fs_type: str, options: Sequence[str] = ()) -> None:
        """Mounts `source` at `target`, which is created when missing. Not idempotent."""
        ...

    async def bind_mount(self, source: str, target: str, read_only: bool = False) -> None:
        """Makes the directory `source` also visible at `target`, which is created when missing; or a file
        or device, if `target` is a file. Idempotent: a target that is a mount point already is left as it
        is, save for being made read-only when asked. Raises `DeviceBusy` if another file system, or
        another device, is mounted there."""
        ...

    async def unmount(self, target: str) -> None:
        """Unmounts what is mounted at `target`, all layers. Idempotent: nothing mounted is success. Never
        lazily: while a process uses the mount, raises `DeviceBusy` naming it."""
        ...

    async def remove_mount_point(self, target: str) -> None:
        """Unmounts `target` as `unmount` does and removes the empty directory. Idempotent.
        Never removes content."""
        ...

    async def get_device_mount_refs(self, path: str) -> list[str]:
        """Other mount points that show the same file system as the one mounted at `path` (or, if `path` is a
        block device, all its mount points). Empty when nothing is mounted there."""
        ...

    async def can_make(self, fs_type: str) -> None:
        """Raises `MountsError`, naming what to install, unless this machine can make file
        systems of this type."""
        ...

    async def probe(self, device: str) -> Probe:
        """What `device` holds. Raises `ProbeFailed` if that cannot be determined."""
        ...

    async def format_and_mount(
        self,
        device: str,
        target: str,
        fs_type: str,
        options: Sequence[str] = (),
        format_options: Sequence[str] = (),
    ) -> None:
        """Mounts `device` at `target` with `fs_type`, formatting it first if, and only if, it is provably
        blank, and checking it (fsck) if it is not. Idempotent: the same device already mounted there is
        success. `format_options` are arguments for mkfs, which the caller has checked.

        Raises `FilesystemMismatch` when the device holds anything else (nothing is changed),
        `FilesystemCheckFailed`, `ProbeFailed`, `CommandFailed`, `ToolMissing`.
        """
        ...

    async def resize(self, device: str, mount_path: str) -> None:
        """Grows the file system on `device`, mounted at `mount_path`, to the size of the
        device. Idempotent."""
        ...
