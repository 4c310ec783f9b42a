"""The host's end of a machine's serial line (the other is `guest.wire`): requests and their answers, and what
the machine says of itself.

The line is a pair of FIFOs, made anew for each boot, so that nothing of the boot before is read. What comes
from the machine is bounded before it is parsed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from mooring.cluster.machines.guest.wire import parse

LIMIT = 1 << 20
"""Bytes of a line."""
ANSWER_S = 70.0


class Unanswered(Exception):
    """The machine's first process did not answer, or could not do what it was asked for."""


class Wire:
    """This end, from `open` to `close`."""

    def __init__(self, directory: Path, told: Callable[[dict[str, Any]], None]) -> None:
        """`told` takes what the machine says of itself."""
        self._directory = directory
        self._told = told
        self._to = self._from = -1
        self._held = b""
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def open(self) -> None:
        """Makes the FIFOs and listens."""
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in ("wire.in", "wire.out"):
            (self._directory / name).unlink(missing_ok=True)
            os.mkfifo(self._directory / name, 0o600)
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC  # both ends: it has no end, whichever of them ends
        self._to = os.open(self._directory / "wire.in", flags)
        self._from = os.open(self._directory / "wire.out", flags)
        self._held = b""
        asyncio.get_running_loop().add_reader(self._from, self._read)

    def close(self) -> None:
        """Listens no more; what waits for an answer gets none. Idempotent."""
        if self._from < 0:
            return
        asyncio.get_running_loop().remove_reader(self._from)
        for descriptor in (self._to, self._from):
            os.close(descriptor)
        self._to = self._from = -1
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()

    async def ask(self, what: str, **options: Any) -> dict[str, Any]:
        """Asks for something and waits until it is done; the answer. Raises `Unanswered`."""
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self.tell(what, id=number, **options)
            async with asyncio.timeout(ANSWER_S):
                reply = await asyncio.shield(answer)
        except (TimeoutError, OSError) as error:
            raise Unanswered(f"{what}: the machine's first process does not answer") from error
        except asyncio.CancelledError:
            if answer.cancelled():
                raise Unanswered(f"{what}: the machine went off") from None
            raise
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            raise Unanswered(f"{what}: {str(reply['error'])[:500]}")
        return reply

    def tell(self, what: str, **options: Any) -> None:
        """Asks for something without waiting. Raises OSError if the line is full or closed."""
        if self._to < 0:
            raise BrokenPipeError("the machine is off")
        data = json.dumps({"do": what, **options}).encode() + b"\n"
        if os.write(self._to, data) != len(data):
            raise BlockingIOError("the machine does not read its serial line")

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._held += os.read(self._from, 1 << 16)
        *lines, self._held = self._held.split(b"\n")
        if len(self._held) > LIMIT:
            self._held = b""
        for line in lines:
            message = parse(line)
            if message is not None:
                self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if "says" in message:
            self._told(message)
            return
        waiting = self._waiting.get(message["id"]) if isinstance(message.get("id"), int) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
