"""An NBD server goes on serving whatever becomes of one client."""

from __future__ import annotations

import asyncio
import errno
import os
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from mooring.cluster.storage import nbd
from mooring.cluster.storage.nbd import Nbdkits
from mooring.cluster.storage.record import Kind, Server


async def test_a_client_that_cannot_be_taken_does_not_end_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the host has no file descriptor left for a moment: all that are connected would lose their
    disks."""
    monkeypatch.setattr(nbd, "NBD_PORT", 0)
    monkeypatch.setattr(nbd, "AGAIN_S", 0.0)
    loop, tries, taken = asyncio.get_running_loop(), 0, asyncio.Event()

    async def accept(_: object) -> object:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        taken.set()
        return await loop.create_future()

    monkeypatch.setattr(loop, "sock_accept", accept)
    server = Nbdkits(Server(Kind.NBD, "n", 1 << 30, 1, IPv4Address("127.0.0.1")), tmp_path, tmp_path)
    await server.start()
    await server.allow({"one": IPv4Network("10.88.1.0/24")})
    ended = asyncio.create_task(server.ended())
    reached = asyncio.create_task(taken.wait())
    done, _ = await asyncio.wait((ended, reached), return_when=asyncio.FIRST_COMPLETED)
    for waits in (ended, reached):
        waits.cancel()
    await server.stop()
    assert done == {reached}
