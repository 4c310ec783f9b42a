"""How full a volume is: from the file system that it is on."""

from __future__ import annotations

import os

from mooring.volumes.interfaces import Metrics


def file_system_metrics(path: str) -> Metrics:
    """The use of the file system that `path` is on. Blocking."""
    status = os.statvfs(path)
    return Metrics(
        capacity=status.f_blocks * status.f_frsize,
        used=(status.f_blocks - status.f_bfree) * status.f_frsize,
        available=status.f_bavail * status.f_frsize,
        inodes=status.f_files,
        inodes_used=status.f_files - status.f_ffree,
        inodes_free=status.f_ffree,
    )
