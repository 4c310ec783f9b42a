"""What is mounted at a path, and of which block device.

With it the node services of CSI drivers prove that a path shows their volume before they act on it. It must
not know of volumes or CSI.
"""

from __future__ import annotations

import os
import stat

from mooring.mounts.blocking import blocking
from mooring.mounts.holders import device_number
from mooring.mounts.interface import Mount, Mounts
from mooring.mounts.table import mount_at


async def mount_at_path(mounts: Mounts, path: str) -> Mount | None:
    """The topmost mount at the path, with links resolved; None if nothing is mounted there."""
    return mount_at(await mounts.mount_table(), os.path.realpath(path))


async def mount_of_device(mounts: Mounts, device: str, path: str) -> Mount | None:
    """The mount at the path if it shows the block device `device`; None otherwise. Raises as
    `device_number` does."""
    there = await mount_at_path(mounts, path)
    if there is None:
        return None
    shown = await blocking(shown_device, path, there.device)
    return there if shown == await blocking(device_number, device) else None


def raw_device(path: str) -> tuple[int, int] | None:
    """Major and minor number of the block device at the path; None for anything else, and if stat(2) fails.
    Blocking."""
    try:
        status = os.stat(path)
    except OSError:  # gone, or a file system whose device has gone: no raw device in any case
        return None
    return (os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISBLK(status.st_mode) else None


def shown_device(path: str, mounted: tuple[int, int]) -> tuple[int, int]:
    """Major and minor number of the device at a mount point. `mounted` is the number in the mount table,
    which for a raw device is that of /dev's own file system, the same for all raw devices. Blocking."""
    return raw_device(path) or mounted
