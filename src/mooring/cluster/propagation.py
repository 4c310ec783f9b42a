"""Mounts that others make in a node's directory appear on that node: what a CSI driver outside the machine
needs.

A driver of the user's runs on the host and mounts volumes below the node's root directory there. So that
directory is a shared mount on the host, and the machine's copy of it follows (as `mountPropagation:
Bidirectional` has it for drivers in containers); what the node agent itself mounts stays in the machine. All
calls block.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from mooring.mounts import syscalls
from mooring.mounts.table import mount_at, mounts_below, read_mount_table


def share(directory: Path) -> None:
    """From now on mounts below the directory are passed on to machines that are started after this.
    Idempotent."""
    path = str(directory)
    if mount_at(read_mount_table(), path) is None:
        syscalls.bind(path, path)
    syscalls.make_shared(path)


def clear(directory: Path) -> list[str]:
    """Takes away what is mounted below the directory on the host, and the share; what is busy goes when it is
    not any more. The machine is without power. Returns where something was mounted."""
    path = str(directory)
    found: list[str] = []
    while below := [mount for mount in mounts_below(read_mount_table(), path) if mount.mount_point != path]:
        found += [mount.mount_point for mount in below]
        for mount in sorted(below, key=lambda mount: mount.mount_point, reverse=True):
            _unmount(mount.mount_point)
    if mount_at(read_mount_table(), path) is not None:
        _unmount(path)
    return found


def _unmount(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            syscalls.unmount(path)
        except OSError as error:
            if error.errno == errno.EBUSY:
                syscalls.unmount_lazily(path)
            elif error.errno != errno.EINVAL:  # another process was first
                raise
