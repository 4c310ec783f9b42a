"""A store's window of recent changes, by resource, and the readers that follow it.

`History` is the window of recent changes of one resource; a `Cursor` reads on from a version and is woken by
new changes. A cursor that falls out of the window raises `Expired`, so a slow reader never holds memory or
delays other readers.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from mooring.apiserver.errors import Expired

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

_TRIM = 1024


class Item(msgspec.Struct, frozen=True):
    """One stored state of one object: encoded bytes, and the few parsed fields that selecting needs."""

    key: Key
    uid: str
    version: int
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    body: bytes


class Change(msgspec.Struct, frozen=True):
    """One committed write.

    `previous` is None for ADDED; for DELETED, `item` is the last state under the deletion's version.
    """

    type: ChangeType
    item: Item
    previous: Item | None


class History:
    """Recent changes of one resource, oldest first. Positions are absolute, so that a cursor survives
    trimming."""

    def __init__(self) -> None:
        # The first `_dead` entries are forgotten already. They are cut off a thousand at a time, or an
        # eighth of what is left: to shorten a list at its front moves all the rest, and a full window forgets
        # one entry with each write.
        self._changes: list[Change] = []
        self._versions: list[int] = []
        self._dead = 0
        self._trimmed = 0
        self._waiters: dict[asyncio.Future[None], None] = {}  # in order
        self._listeners: list[Callable[[], None]] = []

    @property
    def start(self) -> int:
        return self._trimmed + self._dead

    @property
    def end(self) -> int:
        return self._trimmed + len(self._changes)

    @property
    def held(self) -> int:
        """How many changes are in memory: those of the window, and what is forgotten but not cut off."""
        return len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self._versions.append(change.item.version)

    def evict(self) -> Change:
        """Forgets the oldest change and returns it."""
        change = self._changes[self._dead]
        self._dead += 1
        if self._dead >= min(_TRIM, (len(self._changes) - self._dead) // 8):
            del self._changes[: self._dead], self._versions[: self._dead]
            self._trimmed, self._dead = self._trimmed + self._dead, 0
        return change

    def wake(self) -> None:
        # A waiter that runs now and waits again waits for the next wake, not for this one.
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in self._listeners:
            listener()

    @property
    def waiting(self) -> int:
        """The number of readers that wait for the next `wake`."""
        return len(self._waiters)

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls `listener` at every `wake`."""
        self._listeners.append(listener)

    def position(self, version: int) -> int:
        """The position after the last change that is not newer than `version`."""
        return self._trimmed + bisect_right(self._versions, version, self._dead)

    def since(self, position: int, limit: int | None = None) -> list[Change]:
        first = position - self._trimmed
        return self._changes[first : None if limit is None else first + limit]

    async def changed(self) -> None:
        """Returns after the next `wake`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)


class Cursor:
    """One reader of a history, from a position on. What is before `position` counts as taken."""

    def __init__(self, history: History, position: int) -> None:
        self._history = history
        self.position = position

    def take(self, limit: int | None = None) -> list[Change]:
        """The changes not yet taken, at most `limit`, maybe none.

        Raises `Expired` if some have left the window unread.
        """
        if self.position < self._history.start:
            raise Expired("too old resource version: the watch fell behind the history that is kept")
        changes = self._history.since(self.position, limit)
        self.position += len(changes)
        return changes

    def skip(self) -> None:
        """Takes everything, unread."""
        self.position = self._history.end

    @property
    def at_end(self) -> bool:
        """Whether everything has been taken."""
        return self.position == self._history.end

    async def changed(self) -> None:
        """Returns as soon as there may be something to take."""
        # Without an await in between: a change that comes after this look is one that wakes.
        if self.at_end:
            await self._history.changed()
