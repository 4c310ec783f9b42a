"""The watchdog of a machine whose supervisor plays the hardware, outside the machine's kernel: it runs on
when the machine is paused, and cuts its power.

The machine's first process passes lines on to it, one JSON object each way: `{"do": "arm", "seconds": 10}`,
`{"do": "feed"}`, `{"do": "disarm"}`, answered with `{"seconds": 10}` or `{"error": TEXT}`. A request is done
when it is answered; one that is not answered in time raises, and feeds nothing more.
"""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

from mooring.node.self_fence.watchdog import Armed, WatchdogRefused

DEVICE = "the machine's supervisor"
ANSWER_S = 30.0


class SupervisedWatchdog:
    """At one socket. One request at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def arm(self, seconds: float) -> Armed:
        self._streams = await asyncio.open_unix_connection(self._path)
        try:
            answer = await self._ask({"do": "arm", "seconds": math.ceil(seconds)})
        except BaseException:
            self._close()
            raise
        return Armed(DEVICE, float(answer["seconds"]), fed_by_close=False)

    async def feed(self) -> None:
        await self._ask({"do": "feed"})

    async def disarm(self) -> None:
        if self._streams is None:
            return
        await self._ask({"do": "disarm"})
        self._close()

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._streams is None:
            raise OSError("no watchdog is armed")
        reader, writer = self._streams
        writer.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(ANSWER_S):
            line = await reader.readline()
        if not line:
            raise OSError("the machine's first process has closed its end")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WatchdogRefused(f"{DEVICE}: {str(answer['error'])[:200]}")
        return answer
