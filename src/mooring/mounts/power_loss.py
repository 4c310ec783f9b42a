"""What a power failure does to file systems: they stop, and what was not flushed is lost.
For simulated machines.

Guarantee: after `shutdown_filesystem` no byte from memory reaches the device any more, and every later use of
the file system fails with an I/O error. What was fsynced before is on the device. All calls block.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Collection

from mooring.mounts.errors import MountsError
from mooring.mounts.interface import Mount
from mooring.mounts.table import read_mount_table

_IOC_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN; XFS and f2fs have the same number."""
_NO_LOG_FLUSH = 2


def shutdown_filesystem(path: str) -> None:
    """Shuts down the file system that `path` is on, without flushing anything. Raises OSError, ENOTTY where
    the file system knows no such thing. Once shut down, it stays so until it is mounted anew."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _IOC_SHUTDOWN, struct.pack("=I", _NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


def shutdown_filesystems(devices: Collection[tuple[int, int]], pid: int) -> list[tuple[int, int]]:
    """Shuts down the file systems on `devices` (major, minor) that process `pid` has
    mounted, and returns which were.

    Raises MountsError for one that is mounted but cannot be shut down, after all others were.
    """
    mounts = [mount for mount in read_mount_table(pid) if mount.device in devices]
    done: list[tuple[int, int]] = []
    failures: list[str] = []
    for device in dict.fromkeys(mount.device for mount in mounts):
        problems = [
            _shut_down(mount, pid) for mount in mounts if mount.device == device and device not in done
        ]
        if None in problems:
            done.append(device)
        else:
            failures += [problem for problem in problems if problem]
    if failures:
        raise MountsError(f"file systems of process {pid} could not be shut down: {'; '.join(failures)}")
    return done


def _shut_down(mount: Mount, pid: int) -> str | None:
    """None if it was done, else why not: another mount may hide this one."""
    path = f"/proc/{pid}/root{mount.mount_point}"
    try:
        number = os.stat(path).st_dev
        if (os.major(number), os.minor(number)) != mount.device:
            return f"{mount.mount_point} is hidden by another mount"
        shutdown_filesystem(path)
    except OSError as error:
        return f"{mount.mount_point}: {error}"
    return None
