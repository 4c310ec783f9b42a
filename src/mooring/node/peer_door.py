"""The door at which a node's agent and its peers exchange words: one UDP socket for both directions, so that
what a peer is sent bears this node's own address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, cast

from mooring.node.peers import Door, Open, Take


class _Socket(asyncio.DatagramProtocol):
    def __init__(self, take: Take) -> None:
        self._take = take
        self._transport: asyncio.DatagramTransport | None = None
        self.where = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        address, port = transport.get_extra_info("sockname")[:2]
        self.where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._take(data, (addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        """Nothing listens there, or nothing leads there: as silent as a peer that is gone."""

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data, to)


def udp(address: str, port: int = 0) -> Open:
    """A door at this address; port 0 is any that is free."""

    @contextlib.asynccontextmanager
    async def opened(take: Take) -> AsyncGenerator[Door]:
        loop = asyncio.get_running_loop()
        transport, door = await loop.create_datagram_endpoint(
            lambda: _Socket(take), local_addr=(address, port)
        )
        try:
            yield door
        finally:
            transport.close()

    return opened
