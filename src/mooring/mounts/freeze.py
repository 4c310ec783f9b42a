"""Freezes mounted file systems: everything written so far is on the device, and further
writes wait. Blocking.

A freeze outlives its process (FIFREEZE is a state of the file system). So the caller records it before it
freezes, and after a crash the next process that finds the record thaws: `thaw` is idempotent.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable

from mooring.mounts.holders import device_number, mounts_everywhere
from mooring.mounts.table import mounts_of_device

_FIFREEZE = 0xC0045877
_FITHAW = 0xC0045878


def freeze(device: str) -> bool:
    """Freezes the file system that is mounted from the block device. Returns whether one is mounted. All
    mounts of a device, in all mount namespaces, are of one file system. Raises OSError."""
    return _first(_ways_to(device), _FIFREEZE, also_fine=errno.EBUSY)


def thaw(device: str) -> None:
    """Lets the writers go on. Idempotent. Raises OSError."""
    _first(_ways_to(device), _FITHAW, also_fine=errno.EINVAL)


def _ways_to(device: str) -> list[str]:
    """Paths to the mount points of the device, through the processes that see them."""
    number = device_number(device)
    found = mounts_everywhere(lambda table: mounts_of_device(table, number))
    return [f"/proc/{pid}/root{mount.mount_point}" for pid, mount in found]


def _first(paths: Iterable[str], request: int, also_fine: int) -> bool:
    """Sends the request to the first path that can be opened: all are of one file system.
    Returns False if none can."""
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue  # the process has ended, or the mount is gone: the next one
        try:
            fcntl.ioctl(descriptor, request, 0)
        except OSError as error:
            if error.errno != also_fine:
                raise
        finally:
            os.close(descriptor)
        return True
    return False
