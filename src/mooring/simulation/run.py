"""Plays one seed: a world, a plan, all checkers; says what was violated, and the hash of what happened."""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog

from mooring.simulation.checks.availability import Availability, Gap
from mooring.simulation.checks.invariants import Checks, Violation
from mooring.simulation.checks.liveness import Quiet, complaints
from mooring.simulation.cluster.cluster import World
from mooring.simulation.cluster.fault_points import Point, Points, without_points
from mooring.simulation.cluster.plan import Plan, make_plan
from mooring.simulation.cluster.plan_player import Acting
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.event_loop import Deadlock, Escape, Livelock, SimulationLoop, end
from mooring.simulation.engine.isolation import sealed
from mooring.simulation.engine.randomness import Replayed, Seeded, stream
from mooring.simulation.engine.trace import Trace

MEMORY = Path("/dev/shm")  # nosec B108 # what is made there has a name of its own (mkdtemp)
"""Where node agents write down what they mounted, if that is there: no disk is needed for it."""


class Outcome(msgspec.Struct):
    """What came of one run. `seconds` is real time, `minutes` simulated time. `guarded`: how often each checker had
    something to look at."""

    seed: int
    digest: str
    violations: list[str]
    invariants: list[str]
    plan: Plan
    choices: dict[int, int] | None
    events: int
    steps: int
    requests: int
    minutes: float
    seconds: float
    counts: dict[str, int]
    guarded: dict[str, int]
    lines: list[str] = []
    points: list[Point] = []
    gaps: list[Gap] = []

    @property
    def ok(self) -> bool:
        return not self.violations


def play(
    seed: int,
    scenario: Scenario,
    *,
    plan: Plan | None = None,
    choices: Mapping[int, int] | Replayed | None = None,
    lines: bool = False,
    noted: bool = False,
    observe: Callable[[Trace], object] = id,
) -> Outcome:
    """Plays the seed, or its world under another plan, or with these choices of the scheduler (none: first come,
    first served). `lines` keeps the text of the trace, `noted` the points that were passed; `observe` is given the
    trace before anything has happened.
    """
    plan = make_plan(seed, scenario) if plan is None else plan
    choose = Seeded(stream(seed, "scheduler")) if choices is None else choices
    choose = choose if callable(choose) else Replayed(choose)
    began = time.perf_counter()
    loop = SimulationLoop(choose)
    root = Path(tempfile.mkdtemp(prefix="mooring-simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    seen = _Seen()
    try:
        with _quiet(), sealed():
            _run(loop, seen, lambda: _story(root, seed, scenario, plan, seen, observe, noted))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    assert seen.trace is not None
    return Outcome(
        seed=seed,
        digest=seen.trace.digest(),
        violations=[str(each) for each in seen.violations],
        invariants=list(dict.fromkeys(each.invariant for each in seen.violations)),
        plan=plan,
        choices=choose.taken if isinstance(choose, Seeded) else dict(choose.choices),
        events=seen.trace.number,
        steps=loop.steps,
        requests=seen.world.network.requests if seen.world else 0,
        minutes=loop.time() / 60,
        seconds=time.perf_counter() - began,
        counts=dict(sorted(seen.trace.counts.items())),
        guarded=seen.checks.guarded() if seen.checks else {},
        gaps=seen.availability.end(loop.time()) if seen.availability else [],
        lines=[event.line() for event in seen.trace.events] if lines else [],
        points=seen.points.passed if noted and seen.points else [],
    )


class _Seen:
    """What is known of a run from outside."""

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.world: World | None = None
        self.points: Points | None = None
        self.checks: Checks | None = None
        self.availability: Availability | None = None
        self.violations: list[Violation] = []


def _run(loop: SimulationLoop, seen: _Seen, story: Callable[[], Any]) -> None:
    gc_was = gc.isenabled()
    gc.disable()  # finalizers run at the same points in every run
    try:
        loop.run_until_complete(story())
    except (Deadlock, Livelock, Escape) as error:
        number = seen.trace.number if seen.trace else 0
        seen.violations.append(Violation(type(error).__name__, str(error), loop.time(), number))
    finally:
        if seen.trace is not None:
            seen.trace.close()
        end(loop, seen.world.actors if seen.world else [])
        seen.violations = list(seen.violations)
        if gc_was:
            gc.enable()


async def _story(
    root: Path,
    seed: int,
    scenario: Scenario,
    plan: Plan,
    seen: _Seen,
    observe: Callable[[Trace], object],
    noted: bool,
) -> None:
    world = World(root, seed, scenario)
    seen.world, seen.trace, seen.points = world, world.trace, Points(world, plan, noted=noted)
    seen.availability = Availability(world.trace, scenario.sets)
    observe(world.trace)
    checks = seen.checks = Checks(world.trace)
    seen.violations = checks.violations
    quiet, acting = Quiet(world), Acting(world)
    await world.start()
    await acting.users.create_workloads()
    world.user.start(acting.play(without_points(plan)))
    await _until(scenario.heal_s)
    await acting.heal()
    await _until(scenario.end_s)
    async for invariant, message in complaints(world, quiet):
        number = world.trace.number
        seen.violations.append(Violation(invariant, message, scenario.end_s, number))


async def _until(moment: float) -> None:
    await asyncio.sleep(max(moment - asyncio.get_running_loop().time(), 0))


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """A run says nothing: what happened is in its trace."""
    before = structlog.get_config()
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        structlog.configure(**before)
        logging.disable(logging.NOTSET)
