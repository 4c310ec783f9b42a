"""The part of a volume that a subPath names. Standard library only.

A symbolic link may lead to another place of the volume, never out of it. Directories that are missing are
made with the permission bits of the volume's own, as upstream makes them: where a pod's fsGroup may write to
the volume, it may write there.
"""

from __future__ import annotations

import errno
import os
import stat

from mooring.node.supervisor import syscalls


class LeadsOut(ValueError):
    """The subPath leads out of its volume."""


def open_sub_path(volume: str, path: str) -> int:
    """An O_PATH descriptor of `path` below the directory `volume`, or of `volume` itself if `path` is empty.
    Raises LeadsOut, and OSError if what is missing cannot be made."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        raise LeadsOut("subPath must not contain '..'")
    root = os.open(volume, os.O_PATH | os.O_CLOEXEC)
    if not parts:
        return root
    try:
        return _open_parts(root, parts, stat.S_IMODE(os.fstat(root).st_mode))
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            what = f"subPath {path} of volume {os.path.basename(volume)} leads out of the volume by a symbolic link"
            raise LeadsOut(what) from None
        raise
    finally:
        os.close(root)


def _open_parts(root: int, parts: list[str], mode: int) -> int:
    try:
        return syscalls.open_beneath(root, "/".join(parts))
    except FileNotFoundError:
        parent = _open_parts(root, parts[:-1], mode) if parts[:-1] else os.dup(root)
    try:
        _make_directory(parent, parts[-1], mode)
    finally:
        os.close(parent)
    return syscalls.open_beneath(root, "/".join(parts))


def _make_directory(parent: int, name: str, mode: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        return  # another container of the pod has just made it, or it is a link to nothing
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(name, flags, dir_fd=parent)
    try:
        os.fchmod(made, mode)  # whatever the umask
    finally:
        os.close(made)
