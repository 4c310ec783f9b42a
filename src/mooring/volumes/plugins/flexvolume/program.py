"""Runs a driver's executable once.

Guarantees: what it writes is bounded (beyond that it is killed), it ends by its deadline or is killed with
its whole process group, and no call waits for a pipe that a child of it keeps open: a driver may leave a
daemon behind that serves the mount (FUSE). It runs without input, in a session of its own.
What the words on its standard output mean is not known here.

`asyncio.create_subprocess_exec` could do it, but its streams wait for the pipes to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from mooring.mounts.blocking import finish

LAST_WORDS_S = 0.5
"""How long output is read that was on its way when the program ended."""
KILLED_S = 5.0
"""How long a killed program may take to be gone; one that the kernel holds takes longer."""
LONGEST_ERRORS = 4096
"""Bytes of standard error that are kept: the first ones."""


@dataclass(frozen=True)
class Ended:
    """How the program ended. `status` is None if it was killed for its deadline or its output."""

    status: int | None
    output: bytes
    errors: bytes
    too_long: bool = False
    """It wrote more than it may."""


async def run(command: Sequence[str], deadline_s: float, longest: int) -> Ended:
    """Runs `command` (with the path of the program) for at most `deadline_s` seconds; at most `longest` bytes
    of output are kept. Raises OSError if it cannot be started. Cancellation waits for its end, since a mount
    that is interrupted may be there or not."""
    return await finish(asyncio.ensure_future(_run(command, deadline_s, longest)))


async def _run(command: Sequence[str], deadline_s: float, longest: int) -> Ended:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: _Reader(longest),
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    try:
        in_time = await _within(deadline_s, protocol.stopped)
        if transport.get_returncode() is None:  # late, or too loud
            _kill_group(transport.get_pid())
            await _within(KILLED_S, protocol.exited)
        elif in_time:
            await _within(LAST_WORDS_S, protocol.closed)
        killed = not in_time or protocol.too_long
        status = None if killed else transport.get_returncode()
        return Ended(status, bytes(protocol.output), bytes(protocol.errors), protocol.too_long)
    finally:
        transport.close()


def _kill_group(leader: int) -> None:
    """The program has not been waited for, so that its number is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


class _Reader(asyncio.SubprocessProtocol):
    """Keeps what the program writes, up to the bounds."""

    def __init__(self, longest: int) -> None:
        self.output, self.errors = bytearray(), bytearray()
        self.too_long = False
        self.exited, self.closed, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._longest = longest
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        chunk = cast(bytes, data)
        if fd == 2:
            self.errors += chunk[: LONGEST_ERRORS - len(self.errors)]
        elif len(self.output) + len(chunk) > self._longest:
            self.too_long = True
            self.stopped.set()
        else:
            self.output += chunk

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.stopped.set()
