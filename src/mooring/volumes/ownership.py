"""Gives a volume's content to a pod's fsGroup, as the kubelet does (`pkg/volume`,
SetVolumeOwnership). Blocking.

Everything below the directory gets the group, and the group gets the rights that the volume allows;
directories pass the group on to new files. Never leaves the file system, and never follows a symbolic link.
What is removed meanwhile by a pod that has the volume already needs nothing; what cannot be looked at raises.

The directory itself comes last, so that it shows whether everything below it was given: a pod with
`fsGroupChangePolicy: OnRootMismatch` looks at nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from mooring.kube.objects import Pod

READ_WRITE = 0o660
READ_ONLY = 0o440
DIRECTORY = stat.S_ISGID | 0o110


def on_root_mismatch(pod: Pod) -> bool:
    """Whether the pod leaves a volume as it is whose root has its group and rights already."""
    context = pod.spec.security_context
    return context is not None and context.fs_group_change_policy == "OnRootMismatch"


def give_to_group(path: str, group: int, read_only: bool = False, *, on_root_mismatch: bool = False) -> None:
    """Raises OSError at the first entry that cannot be changed. With `on_root_mismatch` nothing is changed if
    `path` is a directory of the group with all the rights that it would be given."""
    root = os.lstat(path)
    if on_root_mismatch and _is_given(root, group, read_only):
        return
    for entry in _walk(path, root.st_dev):
        try:
            _give(entry, root.st_dev, group, read_only)
        except (FileNotFoundError, NotADirectoryError):
            if entry == path:
                raise


def _give(entry: str, device: int, group: int, read_only: bool) -> None:
    status = os.lstat(entry)
    if status.st_dev == device:
        os.lchown(entry, -1, group)
        if not stat.S_ISLNK(status.st_mode):
            os.chmod(entry, mode_for_group(status.st_mode, read_only))


def _is_given(status: os.stat_result, group: int, read_only: bool) -> bool:
    mode = status.st_mode
    given = mode_for_group(mode, read_only) == stat.S_IMODE(mode)
    return stat.S_ISDIR(mode) and status.st_gid == group and given


def mode_for_group(mode: int, read_only: bool) -> int:
    """Pure: the permission bits of an entry with `mode` after it was given to the group."""
    granted = READ_ONLY if read_only else READ_WRITE
    return stat.S_IMODE(mode) | granted | (DIRECTORY if stat.S_ISDIR(mode) else 0)


def _walk(path: str, device: int) -> Iterator[str]:
    """Everything below `path` on its file system, then `path`."""
    for directory, names, files in os.walk(path, onerror=_refuse):
        yield from (os.path.join(directory, name) for name in (*names, *files))
        names[:] = [name for name in names if _is_on(device, os.path.join(directory, name))]
    yield path


def _refuse(error: OSError) -> None:
    """Of a directory that could not be listed: `os.walk` would leave it out."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _is_on(device: int, path: str) -> bool:
    try:
        return os.lstat(path).st_dev == device
    except (FileNotFoundError, NotADirectoryError):
        return False
