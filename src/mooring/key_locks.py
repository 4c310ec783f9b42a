"""One operation at a time for each key: a volume, a claim, an image. A leaf."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class KeyLocks:
    """A lock is there as long as a task has it or waits for it: objects come and go, and a process stays."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __getitem__(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def __len__(self) -> int:
        return len(self._locks)
