"""A log for the store of a simulated API server: what it has acknowledged survives a crash, and nothing else need.

A batch becomes durable after a virtual fsync. A crash before that keeps it or loses it, as a whole: chance decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random

from mooring.apiserver.log import Batch, MemoryLog, Recovery


class VolatileLog:
    """`sync_s` is how long an fsync takes, in seconds."""

    def __init__(self, random: Random, sync_s: float = 0.0005) -> None:
        self._random = random
        self._disk = MemoryLog()
        self._unsynced: Batch | None = None
        self.sync_s = sync_s

    def append(self, batch: Batch) -> Awaitable[None]:
        self._unsynced = batch
        return self._sync(batch)

    async def _sync(self, batch: Batch) -> None:
        await asyncio.sleep(self.sync_s)
        self._disk.append(batch)
        self._unsynced = None

    def crash(self) -> None:
        """The machine loses power, or the process is killed: what was not synced may be lost."""
        if self._unsynced is not None and self._random.random() < 0.5:
            self._disk.append(self._unsynced)
        self._unsynced = None

    def recover(self) -> Recovery:
        return self._disk.recover()

    def close(self) -> None:
        """Nothing is held."""
