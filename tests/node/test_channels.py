"""The size of a terminal, as a client says it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import WSMessage, WSMsgType

from mooring.node.endpoint.channels import RESIZE, Session, size_of
from mooring.node.runtime import Stdio


@pytest.mark.parametrize(
    ("said", "size"),
    [
        (b'{"Width": 91, "Height": 17}', (17, 91)),
        (b'{"Width": 91}', (0, 91)),
        (b'{"Width": 65535, "Height": 65535}', (65535, 65535)),
        (b'{"Width": 65536, "Height": 1}', None),
        (b'{"Width": -1, "Height": 1}', None),
        (b'{"Width": "91", "Height": 17}', None),
        (b'{"Width": 1.5, "Height": true}', None),
        (b"[91, 17]", None),
        (b"{", None),
        (b"", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_size_is_two_numbers_that_a_terminal_can_have(said: bytes, size: tuple[int, int] | None):
    assert size_of(said) == size


class PlayedSocket:
    """A client that says what the test has it say, and stays."""

    ws_protocol = "v5.channel.k8s.io"

    def __init__(self) -> None:
        self.said: asyncio.Queue[bytes] = asyncio.Queue()
        self.heard: list[bytes] = []

    async def __aiter__(self) -> AsyncIterator[WSMessage]:
        while True:
            yield WSMessage(WSMsgType.BINARY, await self.said.get(), None)

    async def send_bytes(self, data: bytes) -> None:
        self.heard.append(data)


async def sizes_seen(*messages: bytes) -> tuple[int, int]:
    """The size that a command sees when it begins, where the client says these messages a moment after it has
    connected."""
    socket: Any = PlayedSocket()
    seen: list[tuple[int, int]] = []

    async def command(stdio: Stdio) -> int:
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(stdio[0], termios.TIOCGWINSZ, b"\0" * 8))
        seen.append((rows, columns))
        return 0

    session = Session(socket, os.openpty(), stdin=True)
    running = asyncio.create_task(session.run(command))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not seen
    for message in messages:
        socket.said.put_nowait(bytes([RESIZE]) + message)
    await running
    return seen[0]


async def test_a_command_begins_when_its_terminal_has_its_size():
    assert await sizes_seen(b'{"Width": 91, "Height": 17}') == (17, 91)


async def test_a_message_without_sense_does_no_harm():
    assert await sizes_seen(b"{", b'{"Width": 91, "Height": 17}') == (17, 91)


async def test_a_client_that_says_no_size_gets_its_command_nevertheless():
    assert await sizes_seen() == (0, 0)
