"""File systems on block devices: what is there, making one, checking one, growing one.

Guarantee: only a device that is provably blank is formatted. Blank is: blkid finds no signature, and the
first and the last MiB are zeros. Whatever cannot be read, or is not understood, counts as data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool, run
from mooring.mounts.errors import (
    CommandFailed,
    FilesystemCheckFailed,
    FilesystemMismatch,
    MountsError,
    ProbeFailed,
)
from mooring.mounts.interface import Content, Probe

_MARGIN = 1024 * 1024
_NOT_PERMITTED = "Permission denied to resize"
_EXT_64BIT = 0x80
_BLKID_FOUND, _BLKID_NOTHING = 0, 2
_FSCK_FINE = 0, 1, 2, 3
"""Bits 1 and 2: errors were corrected, and that "the system should be rebooted", which
concerns a mounted root only."""


@dataclass(frozen=True)
class FilesystemType:
    """How one kind of file system is made, checked and grown. `{device}` and `{path}` are filled in."""

    make: tuple[str, ...]
    check: tuple[str, ...] = ()
    """Empty: mounting it replays its log, and there is nothing more to do without a person."""
    grow: tuple[str, ...] = ()
    check_whole: tuple[str, ...] = ()
    """What must have gone well before `grow` of one that is not mounted. Empty: only a mounted one grows."""


# mke2fs without -F: a second lock, as it refuses by itself to format what is in use.
_EXT_OPTIONS = ("-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1")

TYPES = {
    **{
        ext: FilesystemType(
            make=(f"mkfs.{ext}", *_EXT_OPTIONS, "{device}"),
            check=(f"fsck.{ext}", "-p", "{device}"),
            grow=("resize2fs", "{device}"),
            check_whole=(f"fsck.{ext}", "-f", "-p", "{device}"),
        )
        for ext in ("ext4", "ext3", "ext2")
    },
    "xfs": FilesystemType(make=("mkfs.xfs", "-q", "{device}"), grow=("xfs_growfs", "{path}")),
}


def filesystem_type(name: str) -> FilesystemType:
    """The file system called `name`. Raises MountsError if we do not know it."""
    if name not in TYPES:
        raise MountsError(f"file system type {name!r} is not known: choose one of {', '.join(sorted(TYPES))}")
    return TYPES[name]


async def can_make(name: str) -> None:
    """Raises MountsError unless this machine can make and check file systems of this type."""
    kind = filesystem_type(name)
    for command in filter(None, (kind.make, kind.check)):
        find_tool(command[0])


async def probe(device: str) -> Probe:
    """What `device` holds. Raises `ProbeFailed` if that cannot be determined."""
    try:
        has_data = await blocking(_has_data_at_its_ends, device)
    except OSError as error:
        raise ProbeFailed(f"{device} cannot be read ({error}), so it is not known what it holds") from error
    status, output = await run("blkid", "-p", "-o", "export", device, ok=range(-64, 256))
    return interpret_blkid(device, status, output, has_data)


def interpret_blkid(device: str, status: int, output: str, has_data: bool) -> Probe:
    """Pure: what blkid's answer means, given whether the ends of the device hold anything but zeros."""
    if status == _BLKID_FOUND:
        tags = {key: value for key, _, value in (line.partition("=") for line in output.splitlines())}
        if tags.get("TYPE"):
            return Probe(Content.FILESYSTEM, tags["TYPE"])
        if tags.get("PTTYPE"):
            return Probe(Content.PARTITION_TABLE, tags["PTTYPE"])
        return Probe(Content.UNKNOWN)
    if status == _BLKID_NOTHING:
        return Probe(Content.UNKNOWN if has_data else Content.BLANK)
    raise ProbeFailed(
        f"blkid cannot tell what {device} holds (exit status {status}): {output.strip() or 'no output'}"
    )


async def make_filesystem(device: str, fs_type: str, options: Sequence[str] = ()) -> None:
    """Formats `device`. The caller has proved that it is blank."""
    await run(*make_command(device, fs_type, options))


def make_command(device: str, fs_type: str, options: Sequence[str] = ()) -> list[str]:
    """Pure: how `device` is formatted. `options` are more arguments for mkfs; they come before the device."""
    program, *rest = filesystem_type(fs_type).make
    return [program, *_fill_in(rest[:-1], device), *options, *_fill_in(rest[-1:], device)]


async def check_filesystem(device: str, fs_type: str) -> None:
    """Repairs what can be repaired without loss. Raises `FilesystemCheckFailed` if that is not everything."""
    await _check(filesystem_type(fs_type).check, device)


async def _check(form: Sequence[str], device: str) -> None:
    command = _fill_in(form, device)
    if not command:
        return
    status, output = await run(*command, ok=range(-64, 256))
    if status not in _FSCK_FINE:
        raise FilesystemCheckFailed(device, status, output)


async def prepare(device: str, fs_type: str, read_only: bool, format_options: Sequence[str] = ()) -> None:
    """Makes `device` ready to be mounted with `fs_type`: formatted (`format_options` are for mkfs) if it is
    blank; if it is not, checked, and grown if the device has become larger."""
    found = await probe(device)
    if found.content is Content.BLANK and not read_only:
        await make_filesystem(device, fs_type, format_options)
    elif found == Probe(Content.FILESYSTEM, fs_type):
        if not read_only:
            await check_filesystem(device, fs_type)
            await _grow_unmounted(device, fs_type)
    else:
        what = "nothing, and is to be mounted read-only" if found.content is Content.BLANK else str(found)
        raise FilesystemMismatch(device, fs_type, what)


async def grow_filesystem(device: str, mount_path: str, fs_type: str) -> None:
    """Grows the mounted file system to the size of its device. Raises MountsError, with the way out, where
    the kernel does not let this process do it."""
    try:
        await run(*_fill_in(filesystem_type(fs_type).grow, device, mount_path))
    except CommandFailed as error:
        if _NOT_PERMITTED not in error.output:
            raise
        raise MountsError(
            f"the file system on {device} cannot grow while it is mounted: that takes CAP_SYS_RESOURCE, which this "
            f"process does not have. It grows when it is mounted next: delete the pods that use it on this node"
        ) from error


async def _grow_unmounted(device: str, fs_type: str) -> None:
    kind = filesystem_type(fs_type)
    if kind.check_whole and await blocking(_has_room, device):
        await _check(kind.check_whole, device)
        await run(*_fill_in(kind.grow, device))


def _has_room(device: str) -> bool:
    """Whether the ext file system on a device can grow."""
    with open(device, "rb", buffering=0) as file:
        superblock = os.pread(file.fileno(), 1024, 1024)
    return ext_has_room(superblock, device_size(device))


def device_size(device: str) -> int:
    """Of a block device, in bytes. Blocks. Raises OSError."""
    with open(device, "rb", buffering=0) as file:
        return file.seek(0, os.SEEK_END)


def ext_has_room(superblock: bytes, device: int) -> bool:
    """Pure: whether a device of so many bytes is larger than the ext file system with this superblock, by
    more than what may be left over at its end: behind the last whole group of blocks, what has no room for
    another one's bitmaps, inodes and 50 blocks (e2fsprogs, lib/ext2fs/initialize.c)."""
    first, log_block, in_group, inodes = (_number(superblock, offset, 4) for offset in (20, 24, 32, 40))
    block, room = 1024 << log_block, device - ext_size(superblock)
    ends_with_group = in_group and (ext_size(superblock) // block - first) % in_group == 0
    least = (2 + -(-inodes * _number(superblock, 88, 2) // block) + 50) * block if ends_with_group else 0
    return room >= max(_MARGIN, least)


def ext_size(superblock: bytes) -> int:
    """Pure: the size in bytes of the ext2, 3 or 4 file system with this superblock."""
    low, log_block, features, high = (_number(superblock, offset, 4) for offset in (4, 24, 96, 336))
    blocks = low + (high << 32 if features & _EXT_64BIT else 0)
    return blocks * (1024 << log_block)


def _number(superblock: bytes, offset: int, size: int) -> int:
    return int.from_bytes(superblock[offset : offset + size], "little")


def _fill_in(command: Sequence[str], device: str, path: str = "") -> list[str]:
    return [part.format(device=device, path=path) for part in command]


def _has_data_at_its_ends(device: str) -> bool:
    with open(device, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            raise OSError(f"{device} has no size")
        return any(_has_data(file.fileno(), offset) for offset in (0, max(0, size - _MARGIN)))


def _has_data(descriptor: int, offset: int) -> bool:
    content = os.pread(descriptor, _MARGIN, offset)
    return content.count(0) != len(content)
