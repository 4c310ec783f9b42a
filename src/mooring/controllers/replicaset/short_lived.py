"""Pods that went as soon as they were made, though their set did not delete them: evicted once they were
placed, because the scheduler does not see yet what the node life cycle controller sees.

Their successors would come hundreds of times a second, with a disk attached for each. The first successor
comes at once; then the rest doubles (`kube.rests`), until none went so for a while. Whether a pod was ready
tells nothing: it may have been so for an instant. Pods that go together count as one. Values only, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects import Pod
from mooring.kube.rests import LONGEST_S, Rests


class ShortLived:
    """By the key of a set. Times are seconds of the loop."""

    def __init__(self) -> None:
        self._made: dict[str, dict[str, float]] = {}
        """Uids of pods, and when they were made: in the last `LONGEST_S`, and not deleted by their set."""
        self._rests: Rests[str] = Rests()

    def made(self, key: str, uid: str, now: float) -> None:
        self._made.setdefault(key, {})[uid] = now

    def deleted(self, key: str, uid: str) -> None:
        """By its set."""
        self._made.get(key, {}).pop(uid, None)

    def look(self, key: str, pods: Iterable[Pod], now: float) -> None:
        """Takes in what has become of them. `pods`: those that the set has."""
        young = {uid: since for uid, since in self._made.get(key, {}).items() if now - since < LONGEST_S}
        there = {pod.uid for pod in pods if not pod.deleting} if young else set[str]()
        if young.keys() - there and not self.left(key, now):
            self._rests.note(key, now)
        self._made[key] = {uid: since for uid, since in young.items() if uid in there}

    def left(self, key: str, now: float) -> float:
        """Seconds until the next pod may be made; 0: now."""
        return max(self._rests.left((key,), now), 0.0)

    def forget(self, key: str) -> None:
        """The set is gone."""
        self._made.pop(key, None)
        self._rests.end(key)
