"""A limit of requests in flight for each driver. A key that finds no slot waits, and occupies no worker. One
whose turn comes when it needs none any more passes that on: no other waits for it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping


class Slots:
    """`limits` by driver; `otherwise` is the limit of every other driver (None: as many as there are
    workers). `wake` is called with a key whose turn has come."""

    def __init__(
        self, limits: Mapping[str, int], wake: Callable[[str], None], *, otherwise: int | None = None
    ) -> None:
        self._limits = limits
        self._otherwise = otherwise
        self._wake = wake
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._waiting: defaultdict[str, deque[str]] = defaultdict(deque)
        self._turns: dict[str, str] = {}  # key that was woken, and not worked on since -> its driver

    def take(self, driver: str, key: str) -> bool:
        """Takes a slot and returns whether there was one; if not, the key is woken when there is."""
        self._turns.pop(key, None)
        limit = self._limits.get(driver, self._otherwise)
        if limit is not None and self._taken[driver] >= limit:
            if key not in self._waiting[driver]:
                self._waiting[driver].append(key)
            return False
        self._taken[driver] += 1
        return True

    def free(self, driver: str) -> None:
        """Gives the slot back, and wakes the next key."""
        self._taken[driver] -= 1
        self._wake_next(driver)

    def pass_on(self, key: str) -> None:
        """The key was worked on: if it was woken, and took no slot, the next one is woken."""
        driver = self._turns.pop(key, None)
        if driver is not None:
            self._wake_next(driver)

    def _wake_next(self, driver: str) -> None:
        if self._waiting[driver]:
            key = self._waiting[driver].popleft()
            self._turns[key] = driver
            self._wake(key)
