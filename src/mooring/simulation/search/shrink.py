"""Makes a violation small: the same invariant, with fewer steps, less time, a smaller cluster, and a plain
schedule.

Whatever may be left out is left out while the invariant is still violated, the largest parts first. Nothing
is known here of what a violation means; each attempt is a whole run, so shrinking takes as long as that many
runs.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mooring.simulation.checks.quiet_period import CALM_S
from mooring.simulation.cluster.plan import Plan
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.run import Outcome
from mooring.simulation.search.stored_run import StoredRun, stored, write

T = TypeVar("T")

ATTEMPTS = 200
"""For the plan and the cluster, and once more for the schedule."""
SCHEDULES = 3
"""How many schedules are tried when steps are left out and the schedule is one by chance."""
GAP_S = 45.0
"""Longer pauses between steps are shortened to this."""
NOT_NEEDED: dict[str, Any] = {"faults": 0, "actions": 0, "only": (), "on": (), "steps": (), "weights": {}}
"""What of a scenario only the making of a plan looks at."""
SHORTEST_MINUTES = 6.0
"""Minutes of a run, at the least."""
SHRUNK = 5
"""How many seeds' violations are made small when they are stored: each takes some hundred runs."""


def shrink(
    found: StoredRun, *, attempts: int = ATTEMPTS, progress: Callable[[StoredRun], None] = lambda best: None
) -> StoredRun:
    """The smallest run that was found to violate the first invariant that `found` violates.

    `progress` is called with each smaller one.
    """
    scenario = msgspec.structs.replace(found.scenario, **NOT_NEEDED)  # the plan is there already
    shrinker = _Shrinker(msgspec.structs.replace(found, scenario=scenario), attempts, progress)
    gc.collect()
    gc.freeze()  # what is there now need not be looked at after each run
    try:
        shrinker.shrink()
    finally:
        gc.unfreeze()
    return shrinker.best


def keep(directory: Path, failed: Sequence[Outcome]) -> Iterator[tuple[Path, StoredRun]]:
    """Stores violations: the first few as small as they could be made, the others as they were."""
    for number, outcome in enumerate(failed):
        run = stored(outcome)
        small = shrink(run) if number < SHRUNK else run
        yield write(directory, small), small


class _Shrinker:
    def __init__(self, found: StoredRun, attempts: int, progress: Callable[[StoredRun], None]) -> None:
        self.best = found
        self._wanted = found.violated[0][0]
        self._left = self._attempts = attempts
        self._progress = progress

    def shrink(self) -> None:
        if not self._try(choices={}):
            self._try(choices=None)
        while self._left > 0:
            before = (self.best.plan, self.best.scenario)
            self._shorten()
            self._drop_steps()
            self._drop_cluster()
            if (self.best.plan, self.best.scenario) == before:
                break
        self._round()
        self._left = self._attempts
        self._drop_choices()

    def _try(self, **changes: Any) -> bool:
        """Whether the invariant is violated with these changes, too: then they stay."""
        if self._left <= 0:
            return False
        self._left -= 1
        changed = msgspec.structs.replace(self.best, **changes)
        outcome = changed.play()
        gc.collect()
        if self._wanted not in outcome.invariants:
            return False
        self.best = msgspec.structs.replace(changed, digest=outcome.digest, violations=outcome.violations)
        self._progress(self.best)
        return True

    def _try_schedules(self, **changes: Any) -> bool:
        """The same; of a schedule by chance also others are tried."""
        more = range(1, SCHEDULES) if self.best.choices is None else ()
        return self._try(**changes) or any(self._try(**changes, seed=self.best.seed + each) for each in more)

    # --- time

    def _shorten(self) -> None:
        plan = _closed_up(self.best.plan)
        if plan != self.best.plan:
            self._try_schedules(plan=plan)
        last = max((step.at for step in self.best.plan), default=0.0)
        violated = next(time for name, time in self.best.violated if name == self._wanted)
        ended = violated >= self.best.scenario.end_s
        needed = last + 10 if ended else max(last, violated) + 1
        for calm in (CALM_S * 2, CALM_S * 4):
            end_s = max(needed * 1.5, needed + calm if ended else 0.0)
            minutes = max(math.ceil(end_s / 60), SHORTEST_MINUTES)
            scenario = msgspec.structs.replace(self.best.scenario, minutes=minutes)
            if minutes >= self.best.scenario.minutes or self._try_schedules(scenario=scenario):
                return

    # --- steps

    def _drop_steps(self) -> None:
        self._drop(lambda: self.best.plan, lambda rest: self._try_schedules(plan=tuple(rest)))

    def _drop(self, whole: Callable[[], Sequence[T]], attempt: Callable[[Sequence[T]], bool]) -> None:
        """Leaves out halves, quarters and so on, as far as attempts succeed."""
        size = max(len(whole()) // 2, 1)
        while whole():
            start = 0
            while start < len(whole()):
                if not attempt([*whole()[:start], *whole()[start + size :]]):
                    start += size
            if size == 1:
                return
            size = max(size // 2, 1)

    def _round(self) -> None:
        """Times that can be read."""
        steps = (
            msgspec.structs.replace(step, at=float(round(step.at)), value=round(step.value, 1))
            for step in self.best.plan
        )
        self._try_schedules(plan=tuple(steps))

    # --- the cluster

    def _drop_cluster(self) -> None:
        for scenario in _smaller(self.best.scenario, self.best.plan):
            self._try_schedules(scenario=scenario)

    # --- the schedule

    def _drop_choices(self) -> None:
        if self.best.choices == {} or self._try(choices={}):
            return
        if self.best.choices is None:
            self.best = msgspec.structs.replace(self.best, choices=self.best.play().choices)
        choices = self.best.choices or {}
        low, high = 0, len(choices)  # the schedule's beginning is what is needed
        keys = sorted(choices)
        while low < high:
            middle = (low + high) // 2
            if self._try(choices={key: choices[key] for key in keys[:middle]}):
                high = middle
            else:
                low = middle + 1
        self._drop(
            lambda: sorted((self.best.choices or {}).items()), lambda rest: self._try(choices=dict(rest))
        )


def _closed_up(plan: Plan) -> Plan:
    """The plan without long pauses."""
    steps: list[Any] = []
    before = now = 0.0
    for step in plan:
        now += min(step.at - before, GAP_S)
        before = step.at
        steps.append(msgspec.structs.replace(step, at=round(now, 3)))
    return tuple(steps)


def _smaller(scenario: Scenario, plan: Plan) -> Iterator[Scenario]:
    """Scenarios with a workload, a replica or a node less, in which the plan still has its objects."""
    used = {step.on for step in plan}
    for name, replicas in scenario.sets.items():
        others = {each: number for each, number in scenario.sets.items() if each != name}
        if name not in used and others:
            yield msgspec.structs.replace(scenario, sets=others)
        elif replicas > 1:
            yield msgspec.structs.replace(scenario, sets=scenario.sets | {name: replicas - 1})
    if scenario.nodes > 1 and scenario.node_names[-1] not in used:
        yield msgspec.structs.replace(scenario, nodes=scenario.nodes - 1)
