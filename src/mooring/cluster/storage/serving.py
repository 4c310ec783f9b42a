"""The process of a storage server on the host: runs what serves, keeps its clients as they are to be,
answers the `mooring up` that started it.

It is a process of its own so that its clients go on when `mooring up` is killed, as with a real array. What
it is to serve and to whom it reads from the server's directory (`record`), at its start and whenever it is
told that this has changed; so one that was killed lets in no client that was shut out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Protocol

import structlog

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.storage import record
from mooring.cluster.storage.iscsi import Tgtd
from mooring.cluster.storage.nbd import Nbdkits
from mooring.cluster.storage.record import Kind, Server

log = structlog.get_logger(component="storage")

ALLOW, CONNECTED = "allow", "connected"
"""The words it is told: to look anew who may use it, and to say (as JSON) who does."""


class Serving(Protocol):
    """What serves."""

    async def start(self) -> None: ...
    async def allow(self, clients: Mapping[str, IPv4Network]) -> None: ...
    async def connected(self) -> list[str]: ...
    async def ended(self) -> str: ...
    async def stop(self) -> None: ...


def door(sockets: Path, name: str) -> Path:
    """The socket at which it answers."""
    return sockets / f"{name}.storage"


def _of(server: Server, directory: Path, sockets: Path) -> Serving:
    if server.kind is Kind.ISCSI:
        return Tgtd(server, directory, sockets)
    if server.kind is Kind.NBD:
        return Nbdkits(server, directory, sockets)
    raise ClusterError(f"{server.name}: a server of {server.kind} runs in a machine, not here")


async def serve(directory: Path, sockets: Path) -> None:
    """Until it is cancelled. Raises ClusterError if the server ends by itself, and what `record.load`
    raises."""
    server = record.load(directory)
    serving = _of(server, directory, sockets)

    async def obey(command: str, _node: str, _options: Mapping[str, Any]) -> str:
        if command == CONNECTED:
            return json.dumps(await serving.connected())
        if command == ALLOW:
            await serving.allow(record.load_clients(directory))
            return "done"
        raise ClusterError(f"unknown command {command!r}: there are {ALLOW}, {CONNECTED}")

    try:
        await serving.start()
        await serving.allow(record.load_clients(directory))
        async with control.serving(door(sockets, server.name), obey):
            log.info("serves", server=server.name, kind=server.kind.value, address=str(server.address))
            how = await serving.ended()
        raise ClusterError(f"{server.name}: {how}")
    finally:
        await asyncio.shield(serving.stop())
