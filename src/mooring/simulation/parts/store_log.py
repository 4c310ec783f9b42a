"""A log for the store of a simulated API server: what it has acknowledged survives a crash, and nothing else
need.

A batch becomes durable after a virtual fsync. A crash before that keeps it or loses it, as a whole: chance
decides. So it is with a batch whose fsync fails: what became of it shows when the log has resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from mooring.apiserver.errors import LogFailed
from mooring.apiserver.store.log import Batch, MemoryLog, Record, Recovery

SYNC_S = 0.0005
"""How long an fsync takes."""
GIVES_UP_S = 0.3
"""And how long one that fails: the operating system tries more than once."""


class VolatileLog:
    """`sync_s` is how long an fsync takes, in seconds. `journal` is told of each record that is durable."""

    def __init__(self, random: Random, *, journal: Callable[[Record], None], sync_s: float = SYNC_S) -> None:
        self._random = random
        self._journal = journal
        self._disk = MemoryLog()
        self._unsynced: Batch | None = None
        self.sync_s = sync_s
        self.broken = False
        """Its disk fails: no fsync succeeds."""
        self.failed = False
        """An fsync has failed, and the log has not resumed since."""

    def append(self, batch: Batch) -> Awaitable[None]:
        self._unsynced = batch
        loop = asyncio.get_running_loop()
        durable: asyncio.Future[None] = loop.create_future()
        loop.call_later(self.sync_s + (GIVES_UP_S if self.broken else 0), self._synced, batch, durable)
        return durable

    def _synced(self, batch: Batch, durable: asyncio.Future[None]) -> None:
        self.failed = self.failed or self.broken
        if not self.failed:
            self._keep(batch)
        if durable.done():
            return
        if self.failed:
            durable.set_exception(LogFailed("the disk of the store fails"))
        else:
            durable.set_result(None)

    def _keep(self, batch: Batch) -> None:
        self._disk.append(batch)
        self._unsynced = None
        for record in batch.records:
            self._journal(record)

    def crash(self) -> None:
        """The machine loses power, or the process is killed: what was not synced may be lost."""
        self._settle()
        self.failed = False

    def _settle(self) -> None:
        if self._unsynced is not None and self._random.random() < 0.5:
            self._keep(self._unsynced)
        self._unsynced = None

    async def resume(self, after: int) -> Sequence[Record]:
        if self.broken:
            raise LogFailed("the disk of the store still fails")
        self._settle()
        self.failed = False
        return await self._disk.resume(after)

    def recover(self) -> Recovery:
        return self._disk.recover()

    def close(self) -> None:
        """Nothing is held."""


def log_of(records: Sequence[Record], floor: int) -> MemoryLog:
    """A log that holds these records, and nothing else."""
    log = MemoryLog()
    log.append(Batch(records, (), floor))
    return log
