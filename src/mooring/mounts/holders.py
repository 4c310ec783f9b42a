"""What uses a block device: mounts in any mount namespace, open files of any process, devices stacked on it.

The kernel has no such call, so `/proc` and `/sys` are searched. The result is for messages. Whether a
device *is* in use is decided by opening it exclusively (`in_exclusive_use`), which the kernel answers for
all mount namespaces at once. Blocking.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from mooring.mounts.interface import Mount
from mooring.mounts.table import mounts_of_device, read_mount_table

# Errors of reading about a process that is ending, or that this one may not read.
_GONE_OR_HIDDEN = (FileNotFoundError, ProcessLookupError, PermissionError, NotADirectoryError)


def in_exclusive_use(device: str) -> bool:
    """Whether the device is mounted in any mount namespace, or claimed by another device or
    program (O_EXCL)."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise
    return False


def device_number(path: str) -> tuple[int, int]:
    """Major and minor number of the block device at `path`. Raises OSError; ValueError if it
    is no block device."""
    status = os.stat(path)
    if not stat.S_ISBLK(status.st_mode):
        raise ValueError(f"{path} is not a block device")
    return os.major(status.st_rdev), os.minor(status.st_rdev)


def who_holds(device: str) -> list[str]:
    """Each user of the block device `device` in words, without this process."""
    number = device_number(device)
    return [*_stacked(number), *who_mounts(lambda table: mounts_of_device(table, number)), *who_opens(number)]


def who_mounts(select: Callable[[tuple[Mount, ...]], list[Mount]]) -> list[str]:
    """For each mount namespace with a process in it: the mounts that `select` chooses from
    its table, in words."""
    found = mounts_everywhere(select)
    return [
        f"mounted at {mount.mount_point} in the mount namespace of {describe_process(pid)}"
        for pid, mount in found
    ]


def mounts_everywhere(select: Callable[[tuple[Mount, ...]], list[Mount]]) -> list[tuple[int, Mount]]:
    """For each mount namespace with a process in it: that process, and each mount that `select` chooses."""
    found: list[tuple[int, Mount]] = []
    for pid in _one_process_of_each_mount_namespace():
        try:
            table = read_mount_table(pid)
        except (*_GONE_OR_HIDDEN, OSError):
            continue
        found += [(pid, mount) for mount in select(table)]
    return found


def who_opens(number: tuple[int, int]) -> list[str]:
    """The processes, save this one, that have the block device open, in words."""
    wanted = os.makedev(*number)
    return [
        f"held open by {describe_process(pid)}"
        for pid in processes()
        if pid != os.getpid() and any(_is_device(path, wanted) for path in open_files(pid))
    ]


def processes() -> Iterator[int]:
    """The ids of all processes that `/proc` shows."""
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def open_files(pid: int) -> list[str]:
    """Paths under `/proc` that lead to what the process has open; empty if it has ended or
    may not be looked into."""
    directory = f"/proc/{pid}/fd"
    try:
        return [f"{directory}/{entry}" for entry in os.listdir(directory)]
    except _GONE_OR_HIDDEN:
        return []


def describe_process(pid: int) -> str:
    """A process in words: "process 123 (postgres)"."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (*_GONE_OR_HIDDEN, OSError):
        name = "ended meanwhile"
    return f"process {pid} ({name})"


def _is_device(path: str, wanted: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISBLK(status.st_mode) and status.st_rdev == wanted


def _one_process_of_each_mount_namespace() -> list[int]:
    first: dict[str, int] = {}
    for pid in (os.getpid(), *processes()):
        try:
            first.setdefault(os.readlink(f"/proc/{pid}/ns/mnt"), pid)
        except _GONE_OR_HIDDEN:
            continue
    return list(first.values())


def _stacked(number: tuple[int, int]) -> list[str]:
    directory = f"/sys/dev/block/{number[0]}:{number[1]}/holders"
    return [f"used by device {entry}" for entry in os.listdir(directory)] if os.path.isdir(directory) else []
