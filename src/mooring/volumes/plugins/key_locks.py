"""One operation at a time for each key: a volume, a target. A leaf."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class KeyLocks:
    """A lock is there as long as a task holds it or waits for it: volumes come and go, and an agent stays."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __getitem__(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def __len__(self) -> int:
        return len(self._locks)
