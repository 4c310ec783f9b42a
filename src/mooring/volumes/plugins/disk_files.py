"""How the disk array keeps its records, and plugins their notes: small JSON files that are replaced whole,
and locks between processes.

Guarantees: a record is the old one or the new one, also after a power failure, never a mixture; a change that
returned is durable; the kernel drops the lock of a process that dies. Blocking.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_TEMPORARY = ".new"


def write_durably(path: Path, content: bytes) -> None:
    """Replaces the file at `path`."""
    temporary = path.with_name(path.name + _TEMPORARY)
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directory(path.parent)


def link_durably(path: Path, target: str) -> None:
    """Makes or replaces the symbolic link at `path`."""
    temporary = path.with_name(path.name + _TEMPORARY)
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    os.rename(temporary, path)
    sync_directory(path.parent)


def unlink_durably(path: Path) -> None:
    """Removes the file or link at `path`, if there is one."""
    if os.path.lexists(path):
        path.unlink()
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes new, renamed and removed entries of a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path) -> int:
    """Locks the file at `path`, waiting for it; closing the returned descriptor releases the lock. The file
    is created, its directory is not: raises FileNotFoundError. The holder of the lock may remove the file."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still_there(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still_there(path: Path, descriptor: int) -> bool:
    """Whether the file that was locked has not been removed, or replaced, while the lock was waited for."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
