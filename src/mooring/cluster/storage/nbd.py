"""An NBD server: one nbdkit for each connection.

This program accepts, looks who comes, and hands the connection to a nbdkit of its own (`nbdkit --single`).
So a client is shut out by the death of its nbdkit: the kernel then vouches that it writes no more, and the
connections of others go on. One nbdkit (or qemu-nbd) for all can refuse new clients, but not take one that
is connected away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import structlog

from mooring.cluster.layout import ClusterError
from mooring.cluster.storage.programs import ENVIRON
from mooring.cluster.storage.record import NBD_PORT, Server

log = structlog.get_logger(component="storage")

MOST_CONNECTIONS = 64
_ALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
"""A client that lost its power is found out within two minutes; a cut that is shorter is survived."""
AGAIN_S = 0.5
"""From a client that could not be taken to the next try."""


class Nbdkits:
    """The server's programs, from `start` to `stop`."""

    def __init__(self, server: Server, directory: Path, sockets: Path) -> None:
        del sockets  # it needs none
        self._server = server
        self._directory = directory
        self._clients: Mapping[str, IPv4Network] = {}
        self._running: dict[asyncio.subprocess.Process, IPv4Address] = {}
        self._reapers: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._starting = (
            asyncio.Lock()
        )  # no client is shut out while a connection is between accept and nbdkit

    async def start(self) -> None:
        """Listens; no client is let in yet. Raises ClusterError."""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((str(self._server.address), NBD_PORT))
        except OSError as error:
            raise ClusterError(
                f"cannot listen at {self._server.address}:{NBD_PORT}: {error.strerror}"
            ) from error
        self._listener.listen(MOST_CONNECTIONS)
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._listener), name="nbd")

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, (host, *_) = await loop.sock_accept(listener)
            except OSError as error:  # it has gone, or there is no descriptor left: the others go on
                log.warning("a client was not taken", error=str(error))
                await asyncio.sleep(AGAIN_S)
                continue
            with connection:
                async with self._starting:
                    try:
                        await self._hand_over(connection, IPv4Address(host))
                    except OSError as error:
                        log.warning("a client was not served", client=host, error=str(error))

    async def _hand_over(self, connection: socket.socket, client: IPv4Address) -> None:
        if not any(client in part for part in self._clients.values()):
            log.info("refused", client=str(client))
            return
        if len(self._running) >= MOST_CONNECTIONS:
            log.warning("refused: there are as many connections as there may be", client=str(client))
            return
        connection.setblocking(True)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in _ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, seconds)
        nbdkit = await asyncio.create_subprocess_exec(
            *("nbdkit", "--single", "--exit-with-parent", "file", f"dir={self._directory / 'disks'}"),
            stdin=connection.fileno(),
            stdout=connection.fileno(),
            cwd=self._directory,
            env={**os.environ, **ENVIRON},
        )
        self._running[nbdkit] = client
        reaper = asyncio.create_task(self._reap(nbdkit))
        self._reapers.add(reaper)
        reaper.add_done_callback(self._reapers.discard)
        log.info("connected", client=str(client), pid=nbdkit.pid)

    async def _reap(self, nbdkit: asyncio.subprocess.Process) -> None:
        await nbdkit.wait()
        client = self._running.pop(nbdkit)
        log.info("disconnected", client=str(client), pid=nbdkit.pid)

    async def allow(self, clients: Mapping[str, IPv4Network]) -> None:
        """From now on these clients are let in, and no others: when this returns, nothing serves one of them.
        Idempotent."""
        async with self._starting:
            self._clients = dict(clients)
            parts = list(clients.values())
            await self._kill(lambda client: not any(client in part for part in parts))

    async def _kill(self, chosen: Callable[[IPv4Address], bool]) -> None:
        nbdkits = [nbdkit for nbdkit, client in self._running.items() if chosen(client)]
        for nbdkit in nbdkits:
            with contextlib.suppress(ProcessLookupError):
                nbdkit.kill()
        await asyncio.gather(*(nbdkit.wait() for nbdkit in nbdkits))

    async def connected(self) -> list[str]:
        """The addresses of its clients."""
        return sorted({str(client) for client in self._running.values()})

    async def ended(self) -> str:
        """Waits until it accepts no more; why."""
        assert self._accepting is not None
        await asyncio.wait((self._accepting,))
        return f"nothing accepts connections any more: {self._accepting.exception()}"

    async def stop(self) -> None:
        """Kills all of it."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._listener is not None:
            self._listener.close()
        await self._kill(lambda _: True)
