"""The place where a raw device is shown: an empty file, over which the device is mounted. Blocking."""

from __future__ import annotations

import os
import stat

from mooring.csi.errors import Code, CsiError


def make_file(path: str) -> None:
    """Makes the file if it is not there; never through a link that somebody planted, nor by opening what is there for
    writing."""
    os.close(os.open(path, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))


def remove_file(path: str) -> bool:
    """Removes the empty file. Whether nothing is there now; False for a directory. Raises CsiError,
    FAILED_PRECONDITION, for a file that holds something: it is somebody's."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(status.st_mode):
        return False
    if status.st_size or not stat.S_ISREG(status.st_mode):
        raise CsiError(Code.FAILED_PRECONDITION, f"{path} is not removed: it is no empty file. Look at it")
    os.unlink(path)
    return True


def shows_device(path: str) -> tuple[int, int] | None:
    """Major and minor number of the block device that the path is; None if it is none, or cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:  # gone, or a file system whose device has gone: no raw device in any case
        return None
    return (os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISBLK(status.st_mode) else None


def size_of(device: str) -> int:
    """Bytes. Raises OSError."""
    with open(device, "rb", buffering=0) as file:
        return file.seek(0, os.SEEK_END)
