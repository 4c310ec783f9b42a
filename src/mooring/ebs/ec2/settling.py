"""When EC2's descriptions can be believed.

A description may be older than it looks: for a while after a change it shows now the old, now the new state,
while the calls that change something always act on the true one. So a description proves a state only if it
was asked for at least `settle_s` after the last change that could have ended that state. Changes of this
process are noted here; for those of the process before it, its own start stands. Source: EC2's documentation,
"Eventual consistency"; upstream issues 389, 801, 2005.
"""

from __future__ import annotations

import asyncio

SETTLE_S = 5.0
"""What is waited for unless `--settle-time` says otherwise. EC2 documents no bound."""


class Settling:
    """Notes changes by what they change ("attach vol-1"). Is made in a running event loop."""

    def __init__(self, settle_s: float = SETTLE_S) -> None:
        self.settle_s = settle_s
        self._started = self.now()
        self._changed: dict[str, float] = {}

    def now(self) -> float:
        """The event loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def note(self, change: str) -> None:
        """It has just been done, or may have been."""
        self._forget()
        self._changed.pop(change, None)  # so that the notes stay in the order of their times
        self._changed[change] = self.now()

    def proves(self, asked_at: float, *changes: str) -> bool:
        """Whether what was asked for then shows what these changes have made of it."""
        return asked_at >= self._settled_at(changes)

    async def settle(self, *changes: str) -> bool:
        """Waits until a description proves what these changes, and those of the process before this one, have
        made of things; whether that needed any waiting."""
        wait_s = self._settled_at(changes) - self.now()
        if wait_s <= 0:
            return False
        await asyncio.sleep(wait_s)
        return True

    def is_recent(self, change: str) -> bool:
        """Whether descriptions may not show the change yet."""
        return change in self._changed and self.now() < self._changed[change] + self.settle_s

    def _settled_at(self, changes: tuple[str, ...]) -> float:
        return (
            max([self._started, *(self._changed.get(change, self._started) for change in changes)])
            + self.settle_s
        )

    def _forget(self) -> None:
        old = self.now() - self.settle_s
        while self._changed and (first := next(iter(self._changed))) and self._changed[first] < old:
            del self._changed[first]
