"""For how long this process has known of what others have written a time of: an eviction, a taint, a timer.

Such a time is of another clock, or of this one before it was set. By a clock that is an hour ahead of it what
has just begun is an hour old; by one that is an hour behind it begins in an hour. So a time tells one from
another, and no more. How old one is goes by the event loop's clock, which does not jump; after a restart from
when it is seen again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
N = TypeVar("N", bound=Hashable)


class FirstSeen(Generic[K, N]):
    """Since when each is known. `K`: what they are about. `N`: their names."""

    def __init__(self) -> None:
        self._since: dict[K, dict[tuple[N, str], float]] = {}  # (name, its time) -> the loop's time

    def ages(self, about: K, times: Mapping[N, str]) -> dict[N, float]:
        """For how many seconds each is known, by its name. `times`: what there is by now; the rest is
        forgotten. In whole milliseconds, since a timer may be due just before the moment that it is for."""
        known, now = self._since.pop(about, {}), asyncio.get_running_loop().time()
        since = {each: known.get(each, now) for each in times.items()}
        if since:
            self._since[about] = since
        return {name: round(now - first, 3) for (name, _), first in since.items()}
