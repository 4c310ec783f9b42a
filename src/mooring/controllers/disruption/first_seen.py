"""For how long this process has known of evictions that budgets remember, and of conditions of pods.

Their times are of other clocks. By one that is minutes ahead of those an eviction would be forgotten as soon
as it is granted, while the pod seems to be healthy still, and one more would be granted; by one that is an
hour behind it would count for that hour. So a time tells one eviction from another, and no more. How old
one is goes by the event loop's clock, which does not jump; after a restart from when it is seen again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mooring.kube.keys import ObjectKey


class FirstSeen:
    """Since when each is known."""

    def __init__(self) -> None:
        self._since: dict[ObjectKey, dict[tuple[str, str], float]] = {}  # (name, its time) -> the loop's time

    def ages(self, about: ObjectKey, times: Mapping[str, str]) -> dict[str, float]:
        """For how many seconds each is known, by its name. `times`: what there is by now; the rest is
        forgotten. In whole milliseconds, since a timer may be due just before the moment that it is for."""
        known, now = self._since.pop(about, {}), asyncio.get_running_loop().time()
        since = {each: known.get(each, now) for each in times.items()}
        if since:
            self._since[about] = since
        return {name: round(now - first, 3) for (name, _), first in since.items()}
