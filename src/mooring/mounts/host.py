"""`Mounts` for real: the kernel of this machine and its storage tools. Needs root (or a user
and mount namespace)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from mooring.mounts import syscalls, table
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import run
from mooring.mounts.errors import DeviceBusy, MountsError
from mooring.mounts.filesystem import can_make, grow_filesystem, prepare, probe
from mooring.mounts.holders import (
    describe_process,
    device_number,
    in_exclusive_use,
    open_files,
    processes,
    who_holds,
)
from mooring.mounts.interface import Mount, Mounts, Probe


class HostMounts(Mounts):
    """Acts on the mount namespace of this process."""

    async def mount_table(self, pid: int | None = None) -> tuple[Mount, ...]:
        return await blocking(table.read_mount_table, pid)

    async def is_mount_point(self, path: str) -> bool:
        return table.mount_at(await self.mount_table(), table.as_shown(path)) is not None

    async def mount(self, source: str, target: str, fs_type: str, options: Sequence[str] = ()) -> None:
        os.makedirs(target, exist_ok=True)
        flags = ("-o", ",".join(options)) if options else ()
        await run("mount", "-t", fs_type, *flags, "--", source, target)

    async def bind_mount(self, source: str, target: str, read_only: bool = False) -> None:
        if not os.path.lexists(target):
            os.makedirs(target)
        await blocking(_bind, source, table.as_shown(target), read_only)

    async def unmount(self, target: str) -> None:
        await blocking(_unmount, table.as_shown(target))

    async def remove_mount_point(self, target: str) -> None:
        await self.unmount(target)
        try:
            os.rmdir(target)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise MountsError(
                    f"{target} is not removed: nothing is mounted there, yet it holds files. Look at them"
                ) from error
            raise

    async def get_device_mount_refs(self, path: str) -> list[str]:
        mounts = await self.mount_table()
        if _is_block_device(path):
            found = table.mounts_of_device(mounts, device_number(path))
        else:
            shown = table.mount_at(mounts, table.as_shown(path))
            found = table.same_content(mounts, shown) if shown else []
        return [mount.mount_point for mount in found if mount.mount_point != table.as_shown(path)]

    async def probe(self, device: str) -> Probe:
        return await probe(device)

    async def can_make(self, fs_type: str) -> None:
        await can_make(fs_type)

    async def format_and_mount(
        self,
        device: str,
        target: str,
        fs_type: str,
        options: Sequence[str] = (),
        format_options: Sequence[str] = (),
    ) -> None:
        device = os.path.realpath(device)
        there = table.mount_at(await self.mount_table(), table.as_shown(target))
        if there is not None:
            _must_be_on(device, there)
            return
        if await blocking(in_exclusive_use, device):
            raise DeviceBusy(device, await blocking(who_holds, device))
        await prepare(device, fs_type, "ro" in options, format_options)
        await self.mount(device, target, fs_type, options)

    async def resize(self, device: str, mount_path: str) -> None:
        shown = table.mount_at(await self.mount_table(), table.as_shown(mount_path))
        if shown is None:
            raise MountsError(f"{mount_path} is not a mount point, so its file system cannot grow")
        await grow_filesystem(os.path.realpath(device), mount_path, shown.fs_type)


def _must_be_on(device: str, mount: Mount) -> None:
    if mount.device != device_number(device):
        raise DeviceBusy(mount.mount_point, [f"{mount.source} is mounted there, not {device}"])


def _bind(source: str, target: str, read_only: bool) -> None:
    there = table.mount_at(table.read_mount_table(), target)
    if there is None:
        syscalls.bind(source, target)
    elif _content(os.stat(source)) != _content(os.stat(target)):
        raise DeviceBusy(target, [f"{there.source} is mounted there, not {source}"])
    if read_only and (there is None or "ro" not in there.options):
        syscalls.remount_bind_read_only(target)


def _content(status: os.stat_result) -> tuple[int, int]:
    """Returns a value that is equal for two paths that show one file system, or one device. All device nodes
    are on one file system, so for these the device itself is compared, too."""
    is_device = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
    return status.st_dev, status.st_rdev if is_device else 0


def _unmount(target: str) -> None:
    while table.mount_at(table.read_mount_table(), target) is not None:
        try:
            syscalls.unmount(target)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise DeviceBusy(target, _users_of(target)) from error
            if error.errno != errno.EINVAL:  # unmounted by another process meanwhile
                raise


def _users_of(target: str) -> list[str]:
    """Returns what keeps a mount busy, in words: mounts below it, and processes that work in
    it or have files of it open."""
    below = [
        mount for mount in table.mounts_below(table.read_mount_table(), target) if mount.mount_point != target
    ]
    prefix = target + "/"
    return [f"mounted below it: {mount.mount_point}" for mount in below] + [
        f"used by {describe_process(pid)}"
        for pid in processes()
        if any(path == target or path.startswith(prefix) for path in _paths_in_use(pid))
    ]


def _paths_in_use(pid: int) -> list[str]:
    found: list[str] = []
    for link in (f"/proc/{pid}/cwd", f"/proc/{pid}/root", *open_files(pid)):
        try:
            found.append(os.readlink(link))
        except OSError:  # ended meanwhile, or hidden from us: it is left out of a message
            continue
    return found


def _is_block_device(path: str) -> bool:
    try:
        return stat.S_ISBLK(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
