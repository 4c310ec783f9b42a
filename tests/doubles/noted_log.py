"""A log of a store that notes its batches, and fails or is slow as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from mooring.apiserver.errors import Obj
from mooring.apiserver.store.log import Batch, MemoryLog, Record
from mooring.apiserver.store.object_store import Store

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


def no_fields(resource: str, obj: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


def thing(**data: Any) -> Obj:
    return {"metadata": {"uid": "u"}, "data": data}


class NotedLog(MemoryLog):
    """A log that notes its batches, and fails while `failure` is set; what it failed at may be durable."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.failure: BaseException | None = None
        self.keeps = False
        self.closed = False
        self.resumed = 0

    def append(self, batch: Batch) -> Awaitable[None] | None:
        if self.failure is not None:
            if self.keeps:
                super().append(batch)
            raise self.failure
        self.batches.append(batch)
        return super().append(batch)

    async def resume(self, after: int) -> Sequence[Record]:
        self.resumed += 1
        if self.failure is not None:
            raise self.failure
        return await super().resume(after)

    def close(self) -> None:
        self.closed = True


async def some(log: MemoryLog, **window: int) -> Store:
    """A store with the things a and b, in versions 1 and 2."""
    store = Store(log, no_fields, **window)
    for key in (A, B):
        await store.write("things", key, thing())
    return store


class SlowLog(NotedLog):
    """Its commits take a second."""

    def append(self, batch: Batch) -> Awaitable[None]:
        return self._later(batch)

    async def _later(self, batch: Batch) -> None:
        await asyncio.sleep(1)
        super().append(batch)
