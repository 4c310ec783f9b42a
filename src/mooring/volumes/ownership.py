"""Gives a volume's content to a pod's fsGroup, as the kubelet does (`pkg/volume`,
SetVolumeOwnership). Blocking.

Everything below the directory gets the group, and the group gets the rights that the volume allows;
directories pass the group on to new files. Never leaves the file system, and never follows a symbolic link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

READ_WRITE = 0o660
READ_ONLY = 0o440
DIRECTORY = stat.S_ISGID | 0o110


def give_to_group(path: str, group: int, read_only: bool = False) -> None:
    """Raises OSError at the first entry that cannot be changed."""
    device = os.lstat(path).st_dev
    for entry in _walk(path):
        status = os.lstat(entry)
        if status.st_dev == device:
            os.lchown(entry, -1, group)
            if not stat.S_ISLNK(status.st_mode):
                os.chmod(entry, mode_for_group(status.st_mode, read_only))


def mode_for_group(mode: int, read_only: bool) -> int:
    """Pure: the permission bits of an entry with `mode` after it was given to the group."""
    granted = READ_ONLY if read_only else READ_WRITE
    return stat.S_IMODE(mode) | granted | (DIRECTORY if stat.S_ISDIR(mode) else 0)


def _walk(path: str) -> Iterator[str]:
    device = os.lstat(path).st_dev
    yield path
    for directory, names, files in os.walk(path):
        yield from (os.path.join(directory, name) for name in (*names, *files))
        names[:] = [name for name in names if os.lstat(os.path.join(directory, name)).st_dev == device]
