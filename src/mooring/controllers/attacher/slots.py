"""How many requests of one driver are under way at once. What finds no slot waits its turn, and holds no worker."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping


class Slots:
    """`limits` by driver; `otherwise` is the limit of a driver that is not there (None: as many as there are workers).
    `wake` is given a key whose turn has come."""

    def __init__(self, limits: Mapping[str, int], wake: Callable[[str], None], *, otherwise: int | None = None) -> None:
        self._limits = limits
        self._otherwise = otherwise
        self._wake = wake
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._waiting: defaultdict[str, deque[str]] = defaultdict(deque)

    def take(self, driver: str, key: str) -> bool:
        """Whether there is a slot; if not, the key is woken when there is one."""
        limit = self._limits.get(driver, self._otherwise)
        if limit is not None and self._taken[driver] >= limit:
            if key not in self._waiting[driver]:
                self._waiting[driver].append(key)
            return False
        self._taken[driver] += 1
        return True

    def free(self, driver: str) -> None:
        """The request has ended: the next one's turn."""
        self._taken[driver] -= 1
        if self._waiting[driver]:
            self._wake(self._waiting[driver].popleft())
