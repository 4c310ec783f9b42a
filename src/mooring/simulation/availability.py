"""How long pods with an identity were away: from the end of their last process to the start of the next.

What users ask for by scaling, or by deleting a set, a claim or a volume, is no outage and is left out. Truth, not what
the API says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from mooring.simulation.trace import Event, Trace

WISHED = ("scale", "restart-set", "delete-set", "delete-claim", "delete-volume")
WISHED_S = 180.0
"""For so long after such a wish a pod of that set may be away."""


class Gap(msgspec.Struct, frozen=True):
    """A pod was away from `at` on, for so many seconds; `recovered`: it came back before the run ended."""

    pod: str
    at: float
    seconds: float
    recovered: bool = True


class Availability:
    """Follows the pods of these sets."""

    def __init__(self, trace: Trace, sets: Iterable[str]) -> None:
        self.gaps: list[Gap] = []
        self._sets = tuple(sets)
        self._running: defaultdict[str, set[str]] = defaultdict(set)
        self._away: dict[str, float] = {}
        self._wished: dict[str, float] = {}  # set -> until when
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)
        trace.listen("plan.step", self._step)

    def _started(self, event: Event) -> None:
        pod = event.fields["pod"]
        self._running[pod].add(event.fields["uid"])
        since = self._away.pop(pod, None)
        if since is not None:
            self.gaps.append(Gap(pod, since, round(event.time - since, 3)))

    def _ended(self, event: Event) -> None:
        pod = event.fields["pod"]
        self._running[pod].discard(event.fields["uid"])
        name = self._set_of(pod)
        if not self._running[pod] and name and event.time >= self._wished.get(name, 0.0):
            self._away[pod] = event.time

    def _step(self, event: Event) -> None:
        name = event.fields["on"]
        if event.fields["what"] in WISHED:
            self._wished[name] = event.time + WISHED_S
            self._away = {pod: since for pod, since in self._away.items() if self._set_of(pod) != name}

    def _set_of(self, pod: str) -> str:
        return next((name for name in self._sets if pod.rpartition("-")[0] == name), "")

    def end(self, now: float) -> list[Gap]:
        """All gaps; those that are open are told as not recovered."""
        return [*self.gaps, *(Gap(pod, at, round(now - at, 3), recovered=False) for pod, at in self._away.items())]
