"""A port at the host's address on the machines' bridge that leads to one service of this host's loopback
network, for one machine alone (the other end is `guest.relay`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

CHUNK = 1 << 16


@contextlib.asynccontextmanager
async def serving(host: str, machine: str, to: tuple[str, int]) -> AsyncGenerator[int]:
    """Listens at `host` while the context is open, gives the port. A connection from any other address than
    the machine's is closed at once."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("peername")[0] != machine:
            writer.close()
            return
        with contextlib.suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection(*to)
            await asyncio.gather(_pass(reader, there_writer), _pass(there_reader, writer))
            there_writer.close()
        writer.close()

    server = await asyncio.start_server(carry, host, 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
