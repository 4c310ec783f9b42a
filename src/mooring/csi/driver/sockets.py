"""The Unix socket on which a driver listens: a stale socket is replaced, a live one is not. Blocking."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from mooring.csi.errors import Code, EndpointError


@contextmanager
def making_socket(path: Path, mode: int) -> Generator[None]:
    """While entered, the caller may make the socket at `path`: the path is free, no other process makes a
    socket in its directory, and the socket gets the permissions `mode`. Raises EndpointError if a process
    listens there, or if the path is not a socket."""
    # The lock on the directory keeps two drivers that start at once from each taking the other's new socket
    # for a stale one.
    directory = _open_directory(path)
    mask = os.umask(0o777 & ~mode)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        _remove_stale(path)
        yield
    finally:
        os.umask(mask)
        os.close(directory)


def remove_socket(path: Path, inode: int) -> None:
    """Removes the socket if it still has this inode, that is, if no other driver has replaced it."""
    with suppress(FileNotFoundError):
        if path.lstat().st_ino == inode:
            path.unlink()


def _open_directory(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise EndpointError(Code.INVALID_ARGUMENT, f"{path} cannot be listened on: {error}") from error


def _remove_stale(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise EndpointError(
            Code.INVALID_ARGUMENT, f"{path} is not a socket: remove it, or choose another endpoint"
        )
    if _is_live(path):
        raise EndpointError(
            Code.ALREADY_EXISTS,
            f"another driver listens at {path}: stop it first, or choose another endpoint",
        )
    path.unlink(missing_ok=True)


def _is_live(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:  # a process listens, and its backlog is full
            return True
    return True
