"""The folder in which drivers register: the kubelet's plugin registration, seen from the node's side.

A driver (or the registrar beside it) listens on a socket in `<root>/plugins_registry` and serves
`Registration`. A socket that appears there is asked for its driver; when the socket is gone, so is the
driver. Guarantees: a socket that is replaced, even under its name, is asked anew; one that does not answer
keeps no other that is there from being asked; of several of one driver, as while it is replaced by another
version, none that is gone counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import structlog

from mooring.csi.client import Client
from mooring.csi.errors import CsiError
from mooring.csi.proto import registration_pb2 as registration
from mooring.node.inotify import IN_CREATE, IN_DELETE, IN_MOVED_FROM, IN_MOVED_TO, RETRY_S, Inotify, watching

CSI = "CSIPlugin"
TIMEOUT_S = 10.0
CHANGES = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO

log = structlog.get_logger("node-agent")

Identity = tuple[int, int]
"""Of a socket: its inode and when it was made, in nanoseconds."""
Register = Callable[[str, str], Awaitable[None]]
"""Takes a driver's name and address. Raises what keeps it from being registered; the driver gets that as an
answer."""
Unregister = Callable[[str], Awaitable[None]]


class RegistrationFolder:
    """Watches one folder."""

    def __init__(self, folder: Path, register: Register, unregister: Unregister) -> None:
        self._folder = folder
        self._register = register
        self._unregister = unregister
        self._known: dict[Path, Identity] = {}
        self._names: dict[Path, str] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Works until cancelled."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            self._changed.clear()
            with watching(Inotify, self._folder, CHANGES, self._changed.set) as seconds:
                waiting = await self._look()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_S if waiting else seconds):
                        await self._changed.wait()

    async def _look(self) -> bool:
        """Whether to ask a socket again."""
        there = sockets(self._folder)
        for path in [path for path in sorted(self._known.keys() | self._names) if self._is_gone(path, there)]:
            await self._gone(path)
        fresh = [path for path in there if path not in self._known]
        dealt_with = await asyncio.gather(*map(self._ask, fresh))
        self._known |= {path: there[path] for path, done in zip(fresh, dealt_with, strict=True) if done}
        return there.keys() != self._known.keys()

    def _is_gone(self, path: Path, there: Mapping[Path, Identity]) -> bool:
        """Whether a driver is registered, and its socket is not done with: the driver has not heard of it
        yet."""
        return there.get(path) != self._known[path] if path in self._known else path not in there

    async def _gone(self, path: Path) -> None:
        self._known.pop(path, None)
        name = self._names.pop(path, None)
        others = [other for other, its in self._names.items() if its == name]
        for other in others:  # its address counts now: the one that is gone may have been asked after it
            self._known.pop(other, None)
        if name is not None and not others:
            log.info("CSI driver unregistered", driver=name, socket=str(path))
            await self._unregister(name)

    async def _ask(self, path: Path) -> bool:
        """Whether the socket has been dealt with."""
        async with Client(str(path)) as client:
            try:
                info = await client.registration.get_info(registration.InfoRequest(), timeout_s=TIMEOUT_S)
                problem = await self._register_driver(path, info)
                status = registration.RegistrationStatus(plugin_registered=not problem, error=problem)
                await client.registration.notify_registration_status(status, timeout_s=TIMEOUT_S)
            except CsiError as error:
                log.warning("registration socket does not answer", socket=str(path), error=str(error))
                return False
            return not problem

    async def _register_driver(self, path: Path, info: registration.PluginInfo) -> str:
        """What keeps it from being registered; "" if nothing does."""
        if info.type != CSI:
            return f"plugins of type {info.type!r} are not known here: only {CSI}"
        if not any(version.lstrip("v").split(".")[0] == "1" for version in info.supported_versions):
            return f"driver {info.name} supports CSI {', '.join(info.supported_versions) or '(no version)'}: not 1.x"
        try:
            await self._register(info.name, info.endpoint or str(path))
        except Exception as error:  # any error: the driver hears of it, and it is tried again
            log.warning("CSI driver not registered", driver=info.name, error=str(error))
            return str(error)
        self._names[path] = info.name
        log.info("CSI driver registered", driver=info.name, endpoint=info.endpoint or str(path))
        return ""


def sockets(folder: Path) -> dict[Path, Identity]:
    """The sockets in the folder, if it is there; hidden ones are not looked at."""
    found: dict[Path, Identity] = {}
    for entry in os.scandir(folder) if folder.is_dir() else ():
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISSOCK(status.st_mode) and not entry.name.startswith("."):
            found[Path(entry.path)] = (status.st_ino, status.st_ctime_ns)
    return found
