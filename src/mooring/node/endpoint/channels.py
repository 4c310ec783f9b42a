"""A command in a container over a web socket, in the protocol `v5.channel.k8s.io` (and v4, which cannot close
stdin, and the first, which says only what went wrong).

Each message begins with the number of its channel: 0 standard input, 1 output, 2 error, 3 the result as a
Status (`channel.k8s.io`: a failure as a text), 4 the size of the terminal; 255 says that the channel whose
number follows is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import struct
import termios
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from aiohttp import WSMsgType, web

from mooring.node.runtime import RuntimeFailure, Stdio

FIRST_PROTOCOL = "channel.k8s.io"
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", FIRST_PROTOCOL)
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
DRAIN_S = 1.0
"""How long output is waited for after the command has ended: a process that it left behind may hold it
open."""
FIRST_SIZE_S = 0.5
"""How long a command with a terminal waits for its size: what it reads of it at its very beginning is to be
true, and a client that knows it says it at once."""
PIECE = 32 * 1024

Run = Callable[[Stdio], Coroutine[Any, Any, int]]
"""Runs the command with these descriptors; its exit code."""


def status_of(code: int) -> dict[str, Any]:
    """The result of a command as the API says it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(error: Exception) -> dict[str, Any]:
    """A command that could not be run."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": "InternalError",
        "code": 500,
    }


class _Size(msgspec.Struct, frozen=True):
    height: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] = msgspec.field(name="Height", default=0)
    width: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] = msgspec.field(name="Width", default=0)


def size_of(data: bytes) -> tuple[int, int] | None:
    """Rows and columns of a message about the terminal's size; None of one that says nothing sensible."""
    try:
        size = msgspec.json.decode(data, type=_Size)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return size.height, size.width


class Session:
    """One command and its socket. `terminal` is (master, slave) of a terminal, or None for three pipes."""

    def __init__(
        self, socket: web.WebSocketResponse, terminal: tuple[int, int] | None, *, stdin: bool
    ) -> None:
        self._socket = socket
        self._terminal = terminal
        self._ours: list[int] = []
        self._outputs: list[tuple[int, int]] = []  # channel, descriptor
        self._input: int | None = None
        self._sized = asyncio.Event()
        self.stdio = self._terminal_stdio() if terminal else self._pipes(stdin=stdin)

    def _terminal_stdio(self) -> Stdio:
        assert self._terminal is not None
        master, slave = self._terminal
        self._outputs, self._input = [(STDOUT, master)], master
        self._ours = [master]
        return slave, slave, slave

    def _pipes(self, *, stdin: bool) -> Stdio:
        out, out_in = os.pipe2(os.O_CLOEXEC)
        err, err_in = os.pipe2(os.O_CLOEXEC)
        self._outputs, self._ours = [(STDOUT, out), (STDERR, err)], [out, err]
        if not stdin:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), out_in, err_in
        source, self._input = os.pipe2(os.O_CLOEXEC)
        self._ours.append(self._input)
        return source, out_in, err_in

    async def run(self, command: Run) -> None:
        """Until the command has ended, or the client has gone: then it is killed."""
        for descriptor in self._ours:
            os.set_blocking(descriptor, False)
        running = asyncio.create_task(self._run(command))
        outputs = [asyncio.create_task(self._forward(channel, source)) for channel, source in self._outputs]
        listening = asyncio.create_task(self._listen())
        try:
            await asyncio.wait((running, listening), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await asyncio.wait(outputs, timeout=DRAIN_S)
                await self._send_result(running.result())
        finally:
            tasks = (running, listening, *outputs)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._close_input()
            for descriptor in self._ours:
                os.close(descriptor)

    async def _run(self, command: Run) -> dict[str, Any]:
        try:
            await self._first_size()
            return status_of(await command(self.stdio))
        except RuntimeFailure as error:
            return failure(error)
        finally:
            for descriptor in set(self.stdio):
                os.close(descriptor)

    async def _first_size(self) -> None:
        if self._terminal is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_SIZE_S):
                    await self._sized.wait()

    async def _send_result(self, status: dict[str, Any]) -> None:
        if self._socket.ws_protocol != FIRST_PROTOCOL:
            await self._send(ERROR, json.dumps(status).encode())
        elif status["status"] != "Success":
            await self._send(ERROR, status["message"].encode())

    async def _forward(self, channel: int, source: int) -> None:
        while data := await _read(source):
            await self._send(channel, data)

    async def _listen(self) -> None:
        """Returns when the client is gone."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY and message.data:
                await self._take(message.data[0], message.data[1:])

    async def _take(self, channel: int, data: bytes) -> None:
        if channel == STDIN and self._input is not None:
            await _write(self._input, data)
        elif channel == CLOSE and data[:1] == bytes([STDIN]) and self._terminal is None:
            self._close_input()
        elif channel == RESIZE and self._terminal is not None and (size := size_of(data)) is not None:
            fcntl.ioctl(self._terminal[0], termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            self._sized.set()

    def _close_input(self) -> None:
        if self._input is not None and self._terminal is None:
            self._ours.remove(self._input)
            os.close(self._input)
        self._input = None

    async def _send(self, channel: int, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the client is gone: `_listen` ends
            await self._socket.send_bytes(bytes([channel]) + data)


async def _read(descriptor: int) -> bytes:
    """What is there, at least one byte; b"" at the end (a terminal's end is an error of its own)."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(descriptor, PIECE)
        except BlockingIOError:
            await _when(descriptor, loop.add_reader, loop.remove_reader)
        except OSError:
            return b""


async def _write(descriptor: int, data: bytes) -> None:
    """Sends all of it; what the client does not read any more is dropped."""
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await _when(descriptor, loop.add_writer, loop.remove_writer)
        except OSError:
            return


async def _when(descriptor: int, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
    ready = asyncio.get_running_loop().create_future()
    add(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(descriptor)
