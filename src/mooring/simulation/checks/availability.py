"""How long pods with an identity were away: from the end of their last process to the start of the next.

What users ask for is no outage: a pod that they have scaled away, and the three minutes after a wish that
stops a set's pods. The rest of an outage counts, whatever they wish meanwhile. Truth, not what the API says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from mooring.simulation.engine.trace import Event, Trace

WISHED = (
    *("scale", "restart-set", "shrink-set", "delete-set", "delete-claim", "delete-volume"),
    *("hold", "strip-claim", "strip-volume", "restore-volume", "replace-claim"),
)
WISHED_S = 180.0
"""For so long after such a wish a pod of that set may be away."""


class Gap(msgspec.Struct, frozen=True):
    """A pod was away from `at` on, for so many seconds; `recovered`: it came back before the run ended."""

    pod: str
    at: float
    seconds: float
    recovered: bool = True


class Availability:
    """Follows the pods of these sets; `sets` says how many each has."""

    def __init__(self, trace: Trace, sets: Mapping[str, int]) -> None:
        self.gaps: list[Gap] = []
        self._sets, self._wanted = sets, dict(sets)
        self._running: defaultdict[str, set[str]] = defaultdict(set)
        self._away: dict[str, float] = {}
        self._wishes: defaultdict[str, list[float]] = defaultdict(list)  # set -> when
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)
        trace.listen("plan.step", self._step)

    def _started(self, event: Event) -> None:
        pod = event.fields["pod"]
        self._running[pod].add(event.fields["uid"])
        if pod in self._away:
            self._note(pod, self._away.pop(pod), event.time, recovered=True)

    def _ended(self, event: Event) -> None:
        pod = event.fields["pod"]
        self._running[pod].discard(event.fields["uid"])
        if not self._running[pod] and self._is_wanted(pod):
            self._away[pod] = event.time

    def _step(self, event: Event) -> None:
        what, name = event.fields["what"], event.fields["on"]
        if what not in WISHED or name not in self._sets:
            return
        self._wishes[name].append(event.time)
        if what in ("scale", "restart-set", "delete-set"):
            self._wanted[name] = int(event.fields["value"]) if what == "scale" else self._sets[name]
        self._away = {pod: since for pod, since in self._away.items() if self._is_wanted(pod)}

    def _is_wanted(self, pod: str) -> bool:
        name, _, ordinal = pod.rpartition("-")
        return name in self._sets and ordinal.isdigit() and int(ordinal) < self._wanted[name]

    def _note(self, pod: str, since: float, until: float, *, recovered: bool) -> None:
        """The outage, less what its set's users asked for."""
        seconds, counted = until - since, since
        for wish in self._wishes[pod.rpartition("-")[0]]:
            excused = min(until, wish + WISHED_S) - max(counted, wish)
            if excused > 0:
                seconds, counted = seconds - excused, wish + WISHED_S
        if round(seconds, 3) > 0:
            self.gaps.append(Gap(pod, since, round(seconds, 3), recovered))

    def end(self, now: float) -> list[Gap]:
        """All gaps; those that are still open count as not recovered."""
        for pod, since in self._away.items():
            self._note(pod, since, now, recovered=False)
        self._away = {}
        return self.gaps
