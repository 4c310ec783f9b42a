"""Paths in requests of the node service: only where the driver may act, and never through a planted link.
Blocking.

The operator names the directories in which a driver may act when it is started; the paths of these may have
links. Below them no component may be a symbolic link, the last one included: a workload that can write there
could otherwise have the driver mount or unmount anything. The check ends at a missing component: the driver
creates it and what is below it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import Message

from mooring.csi.errors import Code, CsiError

PATH_FIELDS = ("staging_target_path", "target_path", "volume_path")
_MUST_EXIST = "volume_path"


def check_paths(request: Message, allowed: Sequence[Path]) -> None:
    """Checks all paths of the request. Raises CsiError: NOT_FOUND for volume_path, at which a volume must be
    already, INVALID_ARGUMENT for the others."""
    for name in PATH_FIELDS:
        path = getattr(request, name, "")
        if path:
            try:
                check_path(path, allowed)
            except ValueError as error:
                code = Code.NOT_FOUND if name == _MUST_EXIST else Code.INVALID_ARGUMENT
                raise CsiError(code, f"{name} {path!r} {error}") from None


def check_path(path: str, allowed: Sequence[Path]) -> None:
    """Raises ValueError if the driver may not act on the path; the message completes "PATH ..."."""
    if not os.path.isabs(path) or path.startswith("//"):
        raise ValueError("is not absolute")
    if any(part in (".", "..") for part in path.split("/")):
        raise ValueError("must not hold . or ..")
    directory = next((directory for directory in allowed if Path(path).is_relative_to(directory)), None)
    if directory is None or Path(path) == directory:
        raise ValueError(f"is not below {' or '.join(map(str, allowed))}, where this driver may act")
    _follow(directory, Path(path).relative_to(directory).parts)


def _follow(directory: Path, parts: Sequence[str]) -> None:
    # Step by step through descriptors: a check by name could pass, and the name lead elsewhere a moment
    # later.
    try:
        here = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        for part in parts:
            try:
                below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG):
                    raise ValueError(f"cannot be: {error.strerror}") from None
                raise
            os.close(here)
            here = below
            if _is_link(here):
                raise ValueError(f"leads through a symbolic link, {part}")
    finally:
        os.close(here)


def _is_link(descriptor: int) -> bool:
    return stat.S_ISLNK(os.fstat(descriptor).st_mode)
