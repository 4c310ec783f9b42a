"""Plays many seeds, on all processors, and sums up what came of them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

import msgspec

from mooring.simulation.run import Outcome, play
from mooring.simulation.scenario import Scenario

BATCH = 4


class Summary(msgspec.Struct):
    """What came of a campaign. `failed` has the outcomes with violations, `counts` how often what happened."""

    runs: int = 0
    failed: list[Outcome] = []
    minutes: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    requests: int = 0
    counts: dict[str, int] = {}

    @property
    def per_second(self) -> float:
        """Runs for each second of real time."""
        return self.runs / self.seconds if self.seconds else 0.0


def _play_batch(seeds: list[int], scenario: Scenario) -> list[Outcome]:
    outcomes = [play(seed, scenario) for seed in seeds]
    for outcome in outcomes:
        outcome.choices = outcome.choices if outcome.violations else []
    return outcomes


def campaign(
    seeds: range, scenario: Scenario, *, workers: int | None = None, progress: Callable[[int], None] = lambda done: None
) -> Summary:
    """Plays the seeds; `progress` is told how many more are done."""
    began, summary = time.perf_counter(), Summary()
    counts: Counter[str] = Counter()
    for outcomes in _played(seeds, scenario, workers or os.cpu_count() or 1):
        for outcome in outcomes:
            summary.runs += 1
            summary.minutes += outcome.minutes
            summary.steps += outcome.steps
            summary.requests += outcome.requests
            counts.update(outcome.counts)
            counts.update(f"plan {step.what}" for step in outcome.plan)
            if not outcome.ok:
                summary.failed.append(outcome)
        progress(len(outcomes))
    summary.counts = dict(sorted(counts.items()))
    summary.failed.sort(key=lambda outcome: outcome.seed)
    summary.seconds = time.perf_counter() - began
    return summary


def _played(seeds: range, scenario: Scenario, workers: int) -> Iterator[list[Outcome]]:
    if workers == 1 or len(seeds) == 1:
        yield from (_play_batch([seed], scenario) for seed in seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        work = [pool.submit(_play_batch, batch, scenario) for batch in _batches(seeds)]
        for done in as_completed(work):
            yield done.result()


def _batches(seeds: range) -> Iterable[list[int]]:
    return (list(seeds[first : first + BATCH]) for first in range(0, len(seeds), BATCH))
