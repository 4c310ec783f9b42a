"""Speaks to QEMU by its machine protocol: orders and their answers, and what it tells of the machine.

One JSON object on a line, each way. What comes is bounded before it is parsed; lines that are no message are
dropped. Source: docs/interop/qmp-spec.txt of QEMU.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast

LIMIT = 1 << 20
"""Bytes of a line."""
ANSWER_S = 10.0
_NOTHING: Mapping[str, Any] = {}


class Refused(Exception):
    """QEMU's own words for why it does not."""


class NoAnswer(Exception):
    """QEMU is gone, or stands still."""


@dataclass(frozen=True)
class Answer:
    """To the order with this number; `error` is "" if it was done."""

    number: int
    value: Any
    error: str


@dataclass(frozen=True)
class Event:
    """What QEMU tells unasked."""

    name: str
    data: dict[str, Any]


def parse(line: bytes) -> Answer | Event | None:
    """The message on a line; None for the greeting and for what is no message."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    said = cast("dict[str, Any]", found)
    name, number = said.get("event"), said.get("id")
    if isinstance(name, str):
        data = said.get("data")
        return Event(name, cast("dict[str, Any]", data) if isinstance(data, dict) else {})
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    if "error" in said:
        error: Any = said["error"]
        words = cast("dict[str, Any]", error).get("desc") if isinstance(error, dict) else error
        return Answer(number, None, str(words)[:500] or "no reason given")
    return Answer(number, said.get("return"), "")


class Monitor:
    """A connection, from `connect` to `close`."""

    def __init__(self, told: Callable[[Event], None]) -> None:
        """`told` takes each event as it comes."""
        self._told = told
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def connect(self, path: Path) -> None:
        """Raises OSError if nothing listens there, NoAnswer, Refused."""
        reader, self._writer = await asyncio.open_unix_connection(str(path), limit=LIMIT)
        self._reading = asyncio.create_task(self._read(reader), name=f"monitor {path}")
        await self.order("qmp_capabilities")

    async def close(self) -> None:
        """What QEMU has said is taken first, if it has ended. Idempotent."""
        if self._reading is not None:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._reading, 1)
        if self._writer is not None:
            self._writer.close()
        self._reading = self._writer = None

    async def until_closed(self) -> None:
        """Waits until QEMU has ended, and all that it said is taken."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def order(self, command: str, arguments: Mapping[str, Any] = _NOTHING) -> Any:
        """What QEMU returns. Raises Refused, NoAnswer."""
        if self._writer is None:
            raise NoAnswer(f"{command}: the machine is off")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        said = {"execute": command, "arguments": dict(arguments), "id": number}
        try:
            self._writer.write(json.dumps(said).encode() + b"\n")
            async with asyncio.timeout(ANSWER_S):
                reply = await answer
        except (TimeoutError, OSError) as error:
            raise NoAnswer(f"{command}: QEMU does not answer") from error
        finally:
            self._waiting.pop(number, None)
        if reply.error:
            raise Refused(f"{command}: {reply.error}")
        return reply.value

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(parse(line))
        except (OSError, ValueError):  # a line over the limit: no QEMU speaks so
            pass
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError("QEMU has ended"))

    def _take(self, message: Answer | Event | None) -> None:
        if isinstance(message, Event):
            self._told(message)
        elif message is not None:
            waiting = self._waiting.get(message.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
