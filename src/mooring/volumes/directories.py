"""Directories of pods on the node: removing them without ever reaching through a mount. Blocking.

Data was lost elsewhere by removing recursively what was still mounted; so nothing is removed while anything is mounted
there, and what is on another file system is not entered even then.
"""

from __future__ import annotations

import os
import shutil

from mooring.mounts.errors import DeviceBusy
from mooring.mounts.table import mounts_below, read_mount_table


def remove_tree(path: str) -> None:
    """Removes the directory and its content. Idempotent. Raises DeviceBusy while something is mounted there, and
    OSError at the first thing that cannot be removed."""
    if not os.path.lexists(path):
        return
    mounted = [mount.mount_point for mount in mounts_below(read_mount_table(), os.path.realpath(path))]
    if mounted:
        raise DeviceBusy(path, [f"mounted there: {mount_point}" for mount_point in mounted])
    shutil.rmtree(path)
