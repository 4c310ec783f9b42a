"""Pods that went without ever having been ready, though their set did not delete them: evicted as soon as
they were placed, because the scheduler does not see yet what the node life cycle controller sees.

Their successors would come hundreds of times a second, with a disk attached for each. The first successor
comes at once; then the rest doubles (`kube.rests`), until one has been ready, or none went for a while. Pods
that go together count as one. Values only, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects import Pod
from mooring.kube.readiness import ready_since
from mooring.kube.rests import Rests

FORGOTTEN_S = 60.0


class ShortLived:
    """By the key of a set. Times are seconds of the loop."""

    def __init__(self) -> None:
        self._made: dict[str, set[str]] = {}
        """Uids of pods that were made, and have been neither ready nor deleted by their set."""
        self._rests: Rests[str] = Rests()

    def made(self, key: str, uid: str) -> None:
        self._made.setdefault(key, set()).add(uid)

    def deleted(self, key: str, uid: str) -> None:
        """By its set."""
        self._made.get(key, set()).discard(uid)

    def look(self, key: str, pods: Iterable[Pod], now: float) -> None:
        """Takes in what has become of them. `pods`: those that the set has."""
        made = self._made.get(key)
        if not made:
            return
        there = {pod.uid: pod for pod in pods}
        ready = {uid for uid in made & there.keys() if ready_since(there[uid]) is not None}
        went = {uid for uid in made - ready if uid not in there or there[uid].deleting}
        if ready:
            self._rests.end(key)
        elif went and not self.left(key, now):
            if self._rests.left((key,), now) < -FORGOTTEN_S:
                self._rests.end(key)
            self._rests.note(key, now)
        made -= ready | went

    def left(self, key: str, now: float) -> float:
        """Seconds until the next pod may be made; 0: now."""
        return max(self._rests.left((key,), now), 0.0)

    def forget(self, key: str) -> None:
        """The set is gone."""
        self._made.pop(key, None)
        self._rests.end(key)
