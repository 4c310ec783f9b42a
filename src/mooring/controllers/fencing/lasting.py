"""For how long a condition of a Node has been as it is.

Its time is the clock's of who has written it, and may be an hour ahead: a detector that waits by it alone
would wait for as long. So what this process has seen by its own clock counts as well; after a restart, what
the condition says. It must not know what the condition means.
"""

from __future__ import annotations

import asyncio

from mooring.kube.objects import Condition, Node
from mooring.kube.times import Now, parse_time


class Lasting:
    """Times are seconds."""

    def __init__(self, now: Now) -> None:
        self._now = now
        self._seen: dict[str, dict[str, tuple[str, float]]] = {}
        """Node -> type of a condition -> how it was seen last, and since when (the loop's time)."""

    def of(self, node: Node, type_: str, found: Condition | None) -> float:
        """For how long at least. `found`: the condition of that type; None if it has none."""
        here, shown = asyncio.get_running_loop().time(), f"{node.uid} {found and found.status}"
        seen = self._seen.setdefault(node.name, {})
        known, first = seen.get(type_, ("", here))
        if known != shown:
            first = here
            seen[type_] = shown, here
        return max(here - first, self.since(found.last_transition_time if found is not None else None))

    def since(self, time: str | None) -> float:
        """By the wall clock; 0 for a time that is ahead, or not known."""
        return max((self._now() - parse_time(time)).total_seconds(), 0.0) if time else 0.0

    def forget(self, node: str) -> None:
        """Its Node is gone."""
        self._seen.pop(node, None)
