"""Deadlines: a heap of times, and a signal for the task that waits for the earliest one.

Pure but for the signal. A key that is put again is returned at each of its times; the caller checks whether
its record still waits for that time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import NamedTuple


class Key(NamedTuple):
    """What is due: the kind and the id of a record, and the part of it."""

    kind: str
    id: str
    part: str


class DueHeap:
    """Times and keys. Among equal times the first put comes first."""

    def __init__(self) -> None:
        self.sooner = asyncio.Event()
        """Set when something is put that comes before all others."""
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

    def put(self, at: float, key: Key) -> None:
        """Adds `key`, due at `at`."""
        if not self._heap or at < self._heap[0][0]:
            self.sooner.set()
        heapq.heappush(self._heap, (at, self._count, key))
        self._count += 1

    def take(self, now: float) -> list[tuple[float, Key]]:
        """Removes and returns all keys that are due, earliest first, with their times."""
        taken: list[tuple[float, Key]] = []
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            taken.append((at, key))
        return taken

    def next(self, waits: Callable[[float, Key], bool] = lambda at, key: True) -> float | None:
        """The earliest time for which `waits` says that its key still waits for it; None if there is none."""
        while self._heap and not waits(self._heap[0][0], self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
