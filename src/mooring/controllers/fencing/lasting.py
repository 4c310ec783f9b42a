"""For how long a condition of a Node has been as it is.

Its time is the clock's of who has written it. By one that is an hour ahead a detector would wait for that
hour; by one that is an hour behind each condition has lasted for it at once, and a node that is silent for a
moment would be fenced. So its time tells one state from the next, and no more. What counts is for how long
this process has seen it, by the event loop's clock; after a restart it counts anew. It must not know what the
condition means.
"""

from __future__ import annotations

from mooring.kube.first_seen import FirstSeen
from mooring.kube.objects import Condition, Node


class Lasting:
    """Times are seconds."""

    def __init__(self) -> None:
        self._seen: dict[str, FirstSeen[str, str]] = {}
        """Node -> types of conditions, and its uid."""

    def of(self, node: Node, type_: str, found: Condition | None) -> float:
        """For how long at least. `found`: the condition of that type; None if it has none."""
        shown = f"{found.status} {found.last_transition_time}" if found is not None else ""
        return self._seen.setdefault(node.name, FirstSeen()).ages(type_, {node.uid: shown})[node.uid]

    def forget(self, node: str) -> None:
        """Its Node is gone."""
        self._seen.pop(node, None)
