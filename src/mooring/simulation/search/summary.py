"""What came of many runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from mooring.simulation.checks.coverage import Cells
from mooring.simulation.checks.invariants.deadlines.checker import WorstWait
from mooring.simulation.cluster.plan import Plan
from mooring.simulation.run import Outcome

K = TypeVar("K", str, float)
N = TypeVar("N", int, float)


class Summary(msgspec.Struct):
    """What came of a campaign. `failed` has the outcomes with violations, `counts` how often what happened.

    `seconds` is real time, `busy` the time of processors. `recoveries`: how often it took a pod so many
    seconds (two digits of them) to come back. `away`: for how many seconds each pod was away. `cells`: what
    the invariants had to look at after which fault (`checks.coverage`). `worst_wait`: of all runs, what came
    nearest to its deadline, and in which seed.
    """

    runs: int = 0
    failed: list[Outcome] = []
    minutes: float = 0.0
    seconds: float = 0.0
    busy: float = 0.0
    steps: int = 0
    requests: int = 0
    counts: dict[str, int] = {}
    recoveries: dict[float, int] = {}
    away: dict[str, float] = {}
    cells: Cells = {}
    worst_wait: WorstWait | None = None
    worst_seed: int = 0

    def note(self, outcome: Outcome) -> None:
        """Takes in one run."""
        self.runs += 1
        self.minutes += outcome.minutes
        self.steps += outcome.steps
        self.requests += outcome.requests
        if not outcome.ok:
            self.failed.append(outcome)
        self._note_wait(outcome.worst_wait, outcome.seed)
        self.counts = _sum(self.counts, outcome.counts)
        self._cover(outcome.cells)
        for gap in outcome.gaps:
            self.away[gap.pod] = self.away.get(gap.pod, 0.0) + gap.seconds
            if gap.recovered:
                about = float(f"{gap.seconds:.2g}")
                self.recoveries[about] = self.recoveries.get(about, 0) + 1

    def _cover(self, cells: Cells) -> None:
        self.cells = self.cells | {row: _sum(self.cells.get(row, {}), each) for row, each in cells.items()}

    def _note_wait(self, wait: WorstWait | None, seed: int) -> None:
        """The worse of two; of two that are alike that of the lower seed."""
        if wait is None:
            return
        worst = self.worst_wait
        if worst is None or (-wait.share, seed) < (-worst.share, self.worst_seed):
            self.worst_wait, self.worst_seed = wait, seed

    def planned(self, plan: Plan) -> None:
        """Counts the kinds of steps."""
        self.counts = _sum(self.counts, Counter(f"plan {step.what}" for step in plan))

    def recovered_within(self, share: float) -> float:
        """Seconds within which that share of the pods that were away was back."""
        left = share * sum(self.recoveries.values())
        for seconds, number in sorted(self.recoveries.items()):
            left -= number
            if left <= 0:
                return seconds
        return max(self.recoveries, default=0.0)

    def unavailable(self, pod: str) -> float:
        """The share of the time in which a pod was away."""
        return self.away.get(pod, 0.0) / (self.minutes * 60) if self.minutes else 0.0

    @property
    def writes_per_minute(self) -> float:
        """What the API server wrote in a simulated minute."""
        written = self.counts.get("store.written", 0) + self.counts.get("store.deleted", 0)
        return written / self.minutes if self.minutes else 0.0

    def add(self, other: Summary) -> None:
        """Takes in what came of a part of the campaign."""
        self.runs += other.runs
        self.minutes += other.minutes
        self.seconds += other.seconds
        self.busy += other.busy
        self.steps += other.steps
        self.requests += other.requests
        self.counts = _sum(self.counts, other.counts)
        self.recoveries = _sum(self.recoveries, other.recoveries)
        self.away = _sum(self.away, other.away)
        self._cover(other.cells)
        self._note_wait(other.worst_wait, other.worst_seed)
        self.failed = sorted([*self.failed, *other.failed], key=lambda outcome: outcome.seed)

    @property
    def hours_per_cpu_hour(self) -> float:
        """Simulated hours for each hour of a processor."""
        return self.minutes * 60 / self.busy if self.busy else 0.0

    @property
    def per_second(self) -> float:
        """Runs for each second of real time."""
        return self.runs / self.seconds if self.seconds else 0.0


def _sum(one: Mapping[K, N], other: Mapping[K, N]) -> dict[K, N]:
    """Both together, in order."""
    both = dict(one)
    for key, number in other.items():
        both[key] = both[key] + number if key in both else number
    return dict(sorted(both.items()))
