"""Directories of pods on the node: names them, and removes them without ever reaching
through a mount. Blocking.

Uids of pods and names of volumes become entries of directories. API servers make sure that they
can. A node that gets another name all the same (from a static pod, or another kind of server)
refuses the volume and touches nothing outside.

Kubelets have deleted users' data by removing directories recursively that were still mounted. So nothing is
removed while anything is mounted there, and another file system is not entered even then.
"""

from __future__ import annotations

import os
import shutil

from mooring.mounts.errors import DeviceBusy
from mooring.mounts.table import mounts_below, read_mount_table
from mooring.volumes.errors import InvalidSpec

LONGEST_ENTRY = 255  # bytes (NAME_MAX)


def entry(name: str) -> str:
    """Returns the name if it can be that of one entry of a directory. Raises InvalidSpec if
    it would lead elsewhere."""
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > LONGEST_ENTRY:
        raise InvalidSpec(
            f"{name[:100]!a} cannot be the name of a file: a uid or a volume's name was expected"
        )
    return name


def remove_tree(path: str) -> None:
    """Removes the directory and its content. Idempotent. Raises DeviceBusy while something is mounted there,
    and OSError at the first thing that cannot be removed."""
    if not os.path.lexists(path):
        return
    mounted = [mount.mount_point for mount in mounts_below(read_mount_table(), os.path.realpath(path))]
    if mounted:
        raise DeviceBusy(path, [f"mounted there: {mount_point}" for mount_point in mounted])
    shutil.rmtree(path)
