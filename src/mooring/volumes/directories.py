"""Directories of pods on the node: naming them, and removing them without ever reaching through a mount. Blocking.

Pods' uids and volumes' names become entries of directories. API servers make sure that they can; a node that is told
otherwise (an object of another server's, a static pod) refuses the volume and touches nothing outside.

Data was lost elsewhere by removing recursively what was still mounted; so nothing is removed while anything is mounted
there, and what is on another file system is not entered even then.
"""

from __future__ import annotations

import os
import shutil

from mooring.mounts.errors import DeviceBusy
from mooring.mounts.table import mounts_below, read_mount_table
from mooring.volumes.errors import InvalidSpec

LONGEST_ENTRY = 255  # bytes (NAME_MAX)


def entry(name: str) -> str:
    """The name, as that of one entry of a directory. Raises InvalidSpec for one that would lead elsewhere."""
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > LONGEST_ENTRY:
        raise InvalidSpec(f"{name[:100]!a} cannot be the name of a file: a uid or a volume's name was expected")
    return name


def remove_tree(path: str) -> None:
    """Removes the directory and its content. Idempotent. Raises DeviceBusy while something is mounted there, and
    OSError at the first thing that cannot be removed."""
    if not os.path.lexists(path):
        return
    mounted = [mount.mount_point for mount in mounts_below(read_mount_table(), os.path.realpath(path))]
    if mounted:
        raise DeviceBusy(path, [f"mounted there: {mount_point}" for mount_point in mounted])
    shutil.rmtree(path)
