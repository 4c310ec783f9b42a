"""How long to wait before the same thing is done once more of which nothing has come.

A controller whose work another one undoes at once would do it again hundreds of times a second: a pod is
made, evicted, removed, and made; a node is chosen, taken back, and chosen. The second time is at once; then
the rest doubles each time. It ends when something has come of it, or when nothing of the kind was done for a
while. Values only, no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_S, LONGEST_S = 1.0, 10.0
"""As upstream's scheduler lets a pod rest that it could not place. A rest that ended longer ago than the
latter is forgotten."""


class Rests(Generic[K]):
    """What was done how often, and until when (seconds of the loop) it is not done again. After a restart
    nothing rests."""

    def __init__(self) -> None:
        self._done: dict[K, tuple[int, float]] = {}

    def left(self, keys: Iterable[K], now: float) -> float:
        """Seconds until all of these may be done; 0: now."""
        return max([self._done[key][1] - now for key in keys if key in self._done], default=0.0)

    def note(self, key: K, now: float) -> None:
        """It was done once more."""
        number, until = self._done.get(key, (0, now))
        if now - until > LONGEST_S:
            number = 0
        rest = min(FIRST_S * 2.0 ** min(number - 1, 10), LONGEST_S) if number else 0.0
        self._done[key] = number + 1, now + rest

    def end(self, key: K) -> None:
        """Something has come of it, or it is not wanted any more."""
        self._done.pop(key, None)

    def end_others(self, keys: Collection[K]) -> None:
        """Of what is not among these nothing is tried any more."""
        self._done = {key: done for key, done in self._done.items() if key in keys}

    def __len__(self) -> int:
        return len(self._done)

    def end_all(self) -> None:
        """What was in the way may have changed."""
        self._done.clear()
