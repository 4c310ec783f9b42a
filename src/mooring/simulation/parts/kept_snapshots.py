"""The snapshots that a played array keeps: what was on a disk at one moment, and what is made of that.

A snapshot has the handle that its name gives it: asked for twice, it is taken once. What is asked for one
snapshot is carried out one after the other, as a CSI driver has to do it (ABORTED while a request for the
same snapshot is pending). Like all that the storage does, it goes on if the sender dies.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from mooring.key_locks import KeyLocks
from mooring.simulation.parts.storage_errors import Unanswered
from mooring.volumes.errors import SnapshotNotFound, StorageFull, VolumeNotFound

PREFIX = "kept-"
"""Before the name that was asked for: a handle is the storage's own."""


class Disks(Protocol):
    """What an array is to its snapshots."""

    disks: set[str]
    content: dict[str, list[str]]
    sizes: defaultdict[str, int]
    attach_s: float
    at_work: asyncio.Event
    failure: Exception | None
    full: bool
    unanswered: Callable[[], bool]
    journal: Callable[..., None]
    carry_out: Callable[[Coroutine[Any, Any, None]], Awaitable[None]]
    leave_it: Callable[[Coroutine[Any, Any, None]], object]


@dataclass
class KeptSnapshot:
    """What is kept of a disk: its words and its size when it was taken (`at`, seconds of the loop's
    clock)."""

    handle: str
    of: str
    words: tuple[str, ...]
    size: int
    at: float
    ready: bool


class KeptSnapshots:
    """All of one array. `ready_s`: so long after it was taken a snapshot can be used; 0: at once."""

    def __init__(self, array: Disks) -> None:
        self._array = array
        self._kept: dict[str, KeptSnapshot] = {}
        self._turns = KeyLocks()
        self.ready_s = 0.0

    async def take(self, disk: str, name: str) -> KeptSnapshot:
        """Idempotent. Raises `VolumeNotFound`, `StorageFull`."""
        handle = PREFIX + name
        await self._array.carry_out(self._in_turn(handle, lambda: self._take(disk, name)))
        self._answer(f"taking snapshot {name}")
        return self.get(handle)

    def get(self, handle: str) -> KeptSnapshot:
        """Raises `SnapshotNotFound`."""
        if self._array.failure is not None:
            raise self._array.failure
        if handle not in self._kept:
            raise SnapshotNotFound(f"the storage has no snapshot {handle}")
        return self._kept[handle]

    async def delete(self, handle: str) -> None:
        """Idempotent."""
        await self._array.carry_out(self._in_turn(handle, lambda: self._delete(handle)))
        self._answer(f"deleting snapshot {handle}")

    def words_of(self, source: str) -> list[str]:
        """What a disk begins with that is made of a snapshot, or of another disk. Raises `VolumeNotFound`,
        `SnapshotNotFound`."""
        if source in self._array.disks:
            return list(self._array.content.get(source, ()))
        if not source.startswith(PREFIX):
            raise VolumeNotFound(source)
        if not (found := self.get(source)).ready:
            raise SnapshotNotFound(f"snapshot {source} is not ready yet")
        return list(found.words)

    async def _in_turn(self, handle: str, do: Callable[[], None]) -> None:
        async with self._turns[handle]:
            await self._array.at_work.wait()
            await asyncio.sleep(self._array.attach_s)
            if self._array.failure is not None:
                raise self._array.failure
            do()

    def _answer(self, request: str) -> None:
        if self._array.unanswered():
            raise Unanswered(f"{request}: no answer")

    def _take(self, disk: str, name: str) -> None:
        array, handle = self._array, PREFIX + name
        if handle in self._kept:
            return
        if disk not in array.disks:
            raise VolumeNotFound(disk)
        if array.full:
            raise StorageFull(f"there is no room for snapshot {name}")
        words, ready = tuple(array.content.get(disk, ())), not self.ready_s
        now = asyncio.get_running_loop().time()
        made = self._kept[handle] = KeptSnapshot(handle, disk, words, array.sizes[disk], now, ready)
        fields = {"name": name, "volume": disk, "words": len(words), "ready": ready}
        array.journal("array", "truth.snapshot-taken", snapshot=handle, **fields)
        if not ready:
            array.leave_it(self._finish(made))

    async def _finish(self, snapshot: KeptSnapshot) -> None:
        await asyncio.sleep(self.ready_s)
        if self._kept.get(snapshot.handle) is snapshot:
            snapshot.ready = True
            self._array.journal("array", "truth.snapshot-ready", snapshot=snapshot.handle)

    def _delete(self, handle: str) -> None:
        if self._kept.pop(handle, None) is not None:
            self._array.journal("array", "truth.snapshot-deleted", snapshot=handle)
