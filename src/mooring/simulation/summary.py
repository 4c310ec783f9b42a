"""What came of many runs."""

from __future__ import annotations

from collections import Counter

import msgspec

from mooring.simulation.run import Outcome


class Summary(msgspec.Struct):
    """What came of a campaign. `failed` has the outcomes with violations, `counts` how often what happened.

    `seconds` is real time, `busy` the time of processors.
    """

    runs: int = 0
    failed: list[Outcome] = []
    minutes: float = 0.0
    seconds: float = 0.0
    busy: float = 0.0
    steps: int = 0
    requests: int = 0
    counts: dict[str, int] = {}

    def add(self, other: Summary) -> None:
        """Takes in what came of a part of the campaign."""
        for field in ("runs", "minutes", "seconds", "busy", "steps", "requests"):
            setattr(self, field, getattr(self, field) + getattr(other, field))
        self.counts = dict(sorted((Counter(self.counts) + Counter(other.counts)).items()))
        self.failed = sorted([*self.failed, *other.failed], key=lambda outcome: outcome.seed)

    @property
    def hours_per_cpu_hour(self) -> float:
        """Simulated hours for each hour of a processor."""
        return self.minutes * 60 / self.busy if self.busy else 0.0

    @property
    def per_second(self) -> float:
        """Runs for each second of real time."""
        return self.runs / self.seconds if self.seconds else 0.0
