"""When a description of EC2's proves something.

EC2 is eventually consistent: for a while after a change its descriptions show sometimes the old, sometimes
the new state, while mutating calls always act on the actual one. So a description proves a state only if it
was requested at least `settle_s` after the last change that could have ended that state. This process notes
its own changes here; for those of its predecessor, the start of this process counts. Source: EC2's
documentation, "Eventual consistency"; upstream issues 389, 801, 2005.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
SETTLE_S = 5.0
"""The default of `--settle-time`, in seconds. EC2 documents no bound."""
LATE_S = 600.0
"""A change is remembered for so much longer, in seconds: a description may be answered late, and is compared
with what was so when it was requested. One that is later still is proof if it is young enough for whatever is
forgotten."""


class Settling:
    """The times of changes, by keys that name them ("attach vol-1"). To be made in a running event loop."""

    def __init__(self, settle_s: float = SETTLE_S) -> None:
        self.settle_s = settle_s
        self._started = self._forgotten = self.now()
        self._changed: dict[str, float] = {}

    def now(self) -> float:
        """The event loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def note(self, change: str) -> None:
        """Notes that the change has just been made, or may have been."""
        self._forget()
        self._changed.pop(change, None)  # so that the notes stay in the order of their times
        self._changed[change] = self.now()

    def proves(self, requested_at: float, *changes: str) -> bool:
        """Whether a description requested at `requested_at` shows the effect of these changes."""
        return requested_at >= self._settled_at(changes)

    async def settle(self, *changes: str) -> bool:
        """Waits until a description shows the effect of these changes and of those of the predecessor.
        Returns whether it had to wait."""
        wait_s = self._settled_at(changes) - self.now()
        if wait_s <= 0:
            return False
        await asyncio.sleep(wait_s)
        return True

    async def looked_up(self, look: Callable[[], Awaitable[T | None]], change: str) -> T | None:
        """What a look at descriptions finds, if they show what `change` or the predecessor has made; else, as
        when the look was answered late, what another look finds when they do."""
        requested_at = self.now()
        found = await look()
        changes = () if found else (change,)
        if self.proves(requested_at, *changes):
            return found
        await self.settle(*changes)
        return await look()

    async def settle_all(self) -> bool:
        """The same for all changes so far."""
        return await self.settle(*self._changed)

    def is_recent(self, change: str) -> bool:
        """Whether descriptions may not show the change yet."""
        return change in self._changed and self.now() < self._changed[change] + self.settle_s

    def _settled_at(self, changes: tuple[str, ...]) -> float:
        return (
            max([self._started, *(self._changed.get(change, self._forgotten) for change in changes)])
            + self.settle_s
        )

    def _forget(self) -> None:
        old = self.now() - self.settle_s - LATE_S
        while self._changed and (first := next(iter(self._changed))) and self._changed[first] < old:
            self._forgotten = self._changed.pop(first)
