"""The paths at which a node service stages and publishes volumes: what must be there, and what must not.

A raw device is mounted over an empty file; a file system over a directory, which the mount makes. The
functions on files are blocking; the checks are pure, because the caller, who has the mount table, passes in
what is mounted.
"""

from __future__ import annotations

import os
import stat

from mooring.csi.errors import Code, CsiError


def make_file(path: str) -> None:
    """Makes the file over which a device is mounted, unless it is there. Follows no link, and opens what is
    there for reading only. Raises CsiError, FAILED_PRECONDITION, if a directory is there; OSError."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
    except IsADirectoryError:
        raise CsiError(
            Code.FAILED_PRECONDITION,
            f"{path} is a directory, where a raw device is to be shown: unpublish that first",
        ) from None


def check_no_file(path: str) -> None:
    """Raises CsiError, FAILED_PRECONDITION, if the target of a file system exists and is not a directory."""
    if os.path.lexists(path) and not os.path.isdir(path):
        raise CsiError(
            Code.FAILED_PRECONDITION,
            f"{path} is no directory, where a file system is to be shown: unpublish that first",
        )


def remove_file(path: str) -> bool:
    """Removes the empty file over which a device was mounted. Returns whether the path is free now; False for
    a directory. Raises CsiError, FAILED_PRECONDITION, for a file that has content: this driver did not make
    it."""
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


def check_staging_path(path: str) -> None:
    """For drivers with STAGE_UNSTAGE_VOLUME: raises CsiError, FAILED_PRECONDITION (the CSI specification's
    code), if the request names no staging path."""
    if not path:
        raise CsiError(
            Code.FAILED_PRECONDITION, "staging_target_path is missing: this driver's volumes are staged"
        )


def not_staged(volume_id: str, path: str) -> CsiError:
    """The error for a publish whose volume is not mounted at the request's staging path."""
    return CsiError(Code.FAILED_PRECONDITION, f"volume {volume_id} is not staged at {path}")


def check_mounted_target(
    path: str, source: str, *, is_the_volume: bool, is_read_only: bool, wanted_read_only: bool
) -> None:
    """For a target at which `source` is mounted already. Raises CsiError: FAILED_PRECONDITION if that is not
    the volume, ALREADY_EXISTS if it is read-only and the request is not, or the other way round."""
    if not is_the_volume:
        raise CsiError(Code.FAILED_PRECONDITION, f"{source} is mounted at {path}: unpublish that first")
    if is_read_only != wanted_read_only:
        raise CsiError(Code.ALREADY_EXISTS, f"{path} shows the volume, but not as asked for now")
