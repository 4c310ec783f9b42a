"""Plays many seeds, on all processors, and sums up what came of them.

Each processor has one worker, a fresh process that warms up once and stays.
"""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import msgspec

from mooring.simulation.run import Outcome, play
from mooring.simulation.scenario import Scenario

BATCH = 16
WARM_UP = Scenario(nodes=1, sets={"warm": 1}, minutes=1, faults=0, actions=0)


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

    @property
    def hours_per_cpu_hour(self) -> float:
        """Simulated hours for each hour of a processor."""
        return self.minutes * 60 / self.busy if self.busy else 0.0

    @property
    def per_second(self) -> float:
        """Runs for each second of real time."""
        return self.runs / self.seconds if self.seconds else 0.0


def _warm_up() -> None:
    """What every run needs is there, and no collection of garbage looks at it again."""
    play(0, WARM_UP)
    gc.collect()
    gc.freeze()


def _play_batch(seeds: list[int], scenario: Scenario) -> tuple[list[Outcome], float]:
    """The outcomes, and the seconds of a processor that they took."""
    before = _busy()
    outcomes: list[Outcome] = []
    for seed in seeds:
        outcome = play(seed, scenario)
        outcome.choices = outcome.choices if outcome.violations else {}
        outcomes.append(outcome)
        gc.collect()
    return outcomes, _busy() - before


def _busy() -> float:
    times = os.times()
    return sum(times[:4])


def campaign(
    seeds: range, scenario: Scenario, *, workers: int | None = None, progress: Callable[[int], None] = lambda done: None
) -> Summary:
    """Plays the seeds; `progress` is told how many more are done."""
    began, summary = time.perf_counter(), Summary()
    counts: Counter[str] = Counter()
    for outcomes, busy in _played(seeds, scenario, workers or os.cpu_count() or 1):
        summary.busy += busy
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


def _played(seeds: range, scenario: Scenario, workers: int) -> Iterator[tuple[list[Outcome], float]]:
    if workers == 1 or len(seeds) == 1:
        yield from (_play_batch(batch, scenario) for batch in _batches(seeds, 1))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_warm_up) as pool:
        size = max(min(len(seeds) // (workers * 4), BATCH), 1)
        work = [pool.submit(_play_batch, batch, scenario) for batch in _batches(seeds, size)]
        for done in as_completed(work):
            yield done.result()


def _batches(seeds: range, size: int) -> Iterator[list[int]]:
    return (list(seeds[first : first + size]) for first in range(0, len(seeds), size))
