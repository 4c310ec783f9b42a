"""A storage server on the host, as the `mooring up` that runs it sees it: its address, its process
(`serving`), what that is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from mooring.cluster import control
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.boot_orders import run_directory
from mooring.cluster.processes import Part, mooring
from mooring.cluster.storage import serving
from mooring.cluster.storage.addresses import give_host
from mooring.cluster.storage.record import Server
from mooring.mounts.blocking import blocking

START_S = 20.0
ALLOW_S = 30.0


class HostServer:
    """From `start` to `stop`."""

    def __init__(self, server: Server, directory: Path, layout: Layout, addresses: IPv4Network) -> None:
        self._server = server
        self._directory = directory
        self._addresses = addresses
        self._sockets = run_directory(layout.root)
        self._part = Part(
            server.machine,
            mooring("storage", "serve", str(directory), str(self._sockets)),
            run=layout.run,
            logs=layout.logs,
        )
        self._log = layout.logs / f"{server.machine}.log"

    async def start(self) -> None:
        """Returns when it serves. Raises ClusterError."""
        await blocking(give_host, self._directory, self._server.address, self._addresses)
        self._sockets.mkdir(parents=True, exist_ok=True)
        self._door.unlink(missing_ok=True)
        await self._part.start()
        deadline = asyncio.get_running_loop().time() + START_S
        while not self._door.exists():
            if self._part.restarts or asyncio.get_running_loop().time() > deadline:
                raise ClusterError(f"it does not come up; see {self._log}")
            await asyncio.sleep(0.05)

    @property
    def _door(self) -> Path:
        return serving.door(self._sockets, self._server.name)

    async def allow(self, clients: Mapping[str, Any]) -> None:
        """Tells it that its file of clients has changed; returns when that is so. Raises ClusterError."""
        del clients  # it reads them itself
        await self._say(serving.ALLOW)

    async def connected(self) -> list[str]:
        """The addresses of its clients. Raises ClusterError."""
        return [str(each) for each in json.loads(await self._say(serving.CONNECTED))]

    async def _say(self, word: str) -> str:
        if not self._door.exists():
            raise ClusterError(f"{self._server.name} is just being started again")
        try:
            async with asyncio.timeout(ALLOW_S):
                return await control.say(self._door, word, "")
        except TimeoutError:
            raise ClusterError(f"{self._server.name} does not answer within {ALLOW_S:g} s") from None

    async def stop(self) -> None:
        """Its process, and what that runs, has ended. Idempotent."""
        await self._part.stop()
