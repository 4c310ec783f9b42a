"""The FlexVolume drivers of this machine: `<directory>/<vendor>~<driver>/<driver>`.

Guarantees: a driver counts from its first good answer to `init`; one that is replaced is asked anew, and what
it said before counts until it answers; one that is removed is remembered, since its volumes may be mounted.
What is hidden, not executable (half-copied) or without a proper name is no driver. A driver that hangs keeps
no other one from being found. Who looks at changes of directories is not known here: `watch` tells of them.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

from mooring.volumes.errors import VolumeError
from mooring.volumes.names import unescape_plugin_name
from mooring.volumes.plugins.flexvolume.driver import CALL_S, Driver, initialised

RETRY_S = 5.0
"""Until a driver that did not answer is asked again."""
LOOK_S = 60.0
"""Until the directory is read again without being told to: it may have been replaced as a whole."""
SETTLE_S = 0.1
"""Copying makes several changes; they are looked at together."""

log = structlog.get_logger(__name__)


class Watch(Protocol):
    """What reports changes."""

    def close(self) -> None: ...


WatchFolders = Callable[[Iterable[Path], Callable[[], None]], Watch]
"""Takes directories, and what is called after something in them has changed. Raises OSError."""


class Executable(NamedTuple):
    """A file that may be a driver; it differs after the file was replaced or written to."""

    path: Path
    inode: int
    changed_ns: int
    size: int


class DriverFolder:
    """The drivers of one directory, by name: `<vendor>/<driver>`."""

    def __init__(self, directory: Path, timeout_s: float = CALL_S) -> None:
        self.directory = directory
        self.drivers: dict[str, Driver] = {}
        self.gone: set[str] = set()
        """Those of `drivers` that are not there any more."""
        self.problems: dict[str, str] = {}
        """Why a file is not a driver yet, by the name that it would have."""
        self._timeout_s = timeout_s
        self._known: dict[str, Executable] = {}

    async def scan(self) -> bool:
        """Reads the directory once; returns whether some file is to be asked again."""
        there = executables(self.directory)
        for name in [name for name in self._known if name not in there]:
            self._remove(name)
        for name in self.problems.keys() - there.keys():
            del self.problems[name]
        fresh = [name for name, found in there.items() if self._known.get(name) != found]
        results = await asyncio.gather(*(self._ask(name, there[name]) for name in fresh))
        return not all(results)

    async def run(self, watch: WatchFolders) -> None:
        """Follows the directory, which may appear later, until cancelled."""
        while True:
            changed = asyncio.Event()
            watching = self._watch(watch, changed)
            try:
                again = await self.scan()
                async with asyncio.timeout(RETRY_S if again or watching is None else LOOK_S):
                    await changed.wait()
                await asyncio.sleep(SETTLE_S)
            except TimeoutError:
                continue
            finally:
                if watching is not None:
                    watching.close()

    def _watch(self, watch: WatchFolders, changed: asyncio.Event) -> Watch | None:
        if not self.directory.is_dir():
            return None
        try:
            return watch([self.directory, *_driver_directories(self.directory)], changed.set)
        except OSError as error:
            log.warning("FlexVolume drivers not watched", directory=str(self.directory), error=str(error))
            return None

    def _remove(self, name: str) -> None:
        del self._known[name]
        self.gone.add(name)
        log.warning("FlexVolume driver removed", driver=name, directory=str(self.directory))

    async def _ask(self, name: str, found: Executable) -> bool:
        """Whether the file has been dealt with."""
        try:
            driver = await initialised(name, found.path, self._timeout_s)
        except VolumeError as error:
            if self.problems.get(name) != str(error):
                log.warning("FlexVolume driver not ready", driver=name, error=str(error))
            self.problems[name] = str(error)
            return False
        if executables(self.directory).get(name) != found:
            return False  # it was written to meanwhile
        self.drivers[name] = driver
        self._known[name] = found
        self.gone.discard(name)
        self.problems.pop(name, None)
        log.info("FlexVolume driver found", driver=name, capabilities=driver.capabilities)
        return True


@cache
def driver_folder(directory: Path, timeout_s: float = CALL_S) -> DriverFolder:
    """The one of this process, so that a driver is asked for its `init` once."""
    return DriverFolder(directory, timeout_s)


def executables(directory: Path) -> dict[str, Executable]:
    """What may be drivers, by name. Nothing if the directory does not exist."""
    found: dict[str, Executable] = {}
    for folder in _driver_directories(directory):
        vendor, tilde, driver = folder.name.partition("~")
        if not (vendor and tilde and driver) or "~" in driver:
            continue
        try:
            status = os.stat(folder / driver)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IXUSR:
            identity = Executable(folder / driver, status.st_ino, status.st_ctime_ns, status.st_size)
            found[unescape_plugin_name(folder.name)] = identity
    return found


def _driver_directories(directory: Path) -> list[Path]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        Path(entry.path)
        for entry in entries
        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
    ]
