"""Reports changes in directories by the kernel's inotify, without polling.

The watchdog library could do this, with threads; here it is three system calls in the event loop, because
what has changed need not be known: the directory is read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Protocol

IN_MODIFY = 0x2
IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200

LOOK_S, RETRY_S = 60.0, 1.0
"""Until a folder is read again without being told to, and one that is not there is looked for. It may have
been replaced as a whole: the kernel goes on to watch the former one."""


class Watch(Protocol):
    """What reports changes."""

    def close(self) -> None:
        """No more calls."""
        ...


WatchFolders = Callable[[Iterable[Path], int, Callable[[], None]], Watch]
"""Takes directories, a mask of changes, and what is called after them."""


@contextlib.contextmanager
def watching(watch: WatchFolders, folder: Path, mask: int, changed: Callable[[], None]) -> Generator[float]:
    """Watches the folder while it is entered, if it is there. Gives the seconds after which to look at it and
    to watch it anew. To be entered before the folder is read, so that no change is missed."""
    with contextlib.ExitStack() as stack:
        try:
            stack.callback(watch([folder], mask, changed).close)
        except FileNotFoundError:
            yield RETRY_S
        else:
            yield LOOK_S


_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Calls `changed()` after changes in the directories, several at once perhaps, until it is closed.
    `OSError` if a directory cannot be watched."""

    def __init__(self, directories: Iterable[Path], mask: int, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._descriptor = _check(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "inotify_init1")
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        try:
            for directory in directories:
                path = os.fsencode(directory)
                _check(
                    _libc.inotify_add_watch(self._descriptor, path, ctypes.c_uint32(mask)),
                    f"watch {directory}",
                )
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """No more calls."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._descriptor, 65536):
                pass
        self._changed()


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result
