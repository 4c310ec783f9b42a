"""Plays one seed: a cluster, a plan, all checkers; says what was violated, and the hash of what happened."""

from __future__ import annotations

import asyncio
import gc
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from mooring.simulation.checks import attributes, contents, disks, kept_snapshots, records, templates
from mooring.simulation.checks.availability import Availability, Gap
from mooring.simulation.checks.caches import CachesAreTrue
from mooring.simulation.checks.coverage import Cells, Coverage
from mooring.simulation.checks.invariants import Checks, Violation
from mooring.simulation.checks.invariants.deadlines.checker import WorstWait
from mooring.simulation.checks.liveness import Complaint, complaints
from mooring.simulation.checks.memory import Memory
from mooring.simulation.checks.node_memory import NodeMemory
from mooring.simulation.checks.quiet_period import QuietPeriod
from mooring.simulation.checks.quiet_reads import QuietReads
from mooring.simulation.checks.read_back import ReadsAreTrue
from mooring.simulation.checks.recomputed import Recomputed, Restarted
from mooring.simulation.checks.second_opinions import QUESTIONS, SecondOpinions, forget_all
from mooring.simulation.checks.settings import Settings
from mooring.simulation.checks.stored import StoreHoldsItsLog
from mooring.simulation.checks.stored import complaints as kept_in_log
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.fault_points import FaultPoint, FaultPoints, without_points
from mooring.simulation.cluster.plan import Plan, make_plan
from mooring.simulation.cluster.plan_player import PlanPlayer, check
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.swarm import drawn
from mooring.simulation.cluster.user_rules import applied
from mooring.simulation.engine.event_loop import (
    Deadlock,
    Escape,
    Livelock,
    SimulationLoop,
    current_actor,
    end,
)
from mooring.simulation.engine.isolation import isolated
from mooring.simulation.engine.raised import overheard
from mooring.simulation.engine.randomness import ReplayedOrder, SeededOrder, stream
from mooring.simulation.engine.trace import Trace

MEMORY = Path("/dev/shm")  # nosec B108 # what is made there has a name of its own (mkdtemp)
"""Where node agents write down what they mounted, if that is there: no disk is needed for it."""

_MOMENT = re.compile(r"(\S+) at ([\d.]+) s ")


class Outcome(msgspec.Struct):
    """What came of one run. `scenario`: what was played, whether given or drawn. `seconds` is real time,
    `minutes` simulated time. `guarded`: how often each checker had something to look at; `cells`: since which
    fault (`checks.coverage`). `worst_wait`: what came nearest to its deadline."""

    seed: int
    scenario: Scenario
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
    points: list[FaultPoint] = []
    gaps: list[Gap] = []
    cells: Cells = {}
    worst_wait: WorstWait | None = None

    @property
    def ok(self) -> bool:
        return not self.violations

    def moments(self) -> list[tuple[str, float]]:
        """When (seconds) each invariant was violated first."""
        found: dict[str, float] = {}
        for name, moment in moments_of(self.violations):
            found.setdefault(name, moment)
        return list(found.items())


def moments_of(violations: Iterable[str]) -> list[tuple[str, float]]:
    """Which invariant each of these violations is of, and when (seconds) it was."""
    matches = (_MOMENT.match(each) for each in violations)
    return [(match[1], float(match[2])) for match in matches if match]


def play(
    seed: int,
    scenario: Scenario,
    *,
    plan: Plan | None = None,
    choices: Mapping[int, int] | ReplayedOrder | None = None,
    lines: bool = False,
    noted: bool = False,
    observe: Callable[[Trace], object] = id,
) -> Outcome:
    """Plays the seed, or its cluster under another plan, or with these choices of the scheduler (none: first
    come, first served). `lines` keeps the text of the trace, `noted` the points that were passed; `observe`
    is given the trace before anything has happened.
    """
    scenario = drawn(seed, scenario)
    plan = make_plan(seed, scenario) if plan is None else plan
    choose = SeededOrder(stream(seed, "scheduler")) if choices is None else choices
    choose = choose if callable(choose) else ReplayedOrder(choose)
    began = time.perf_counter()
    loop, state = SimulationLoop(choose), _RunState(stream(seed, "opinions"))
    loop.on_unawaited = lambda error: state.raised("a task that is not waited for", error)
    root = Path(tempfile.mkdtemp(prefix="mooring-simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        with (
            overheard(state.raised),
            applied(scenario.policy),
            state.opinions.heard(() if scenario.policy else QUESTIONS),  # of our own rules, not of a user's
            isolated(),
        ):
            _run(loop, state, lambda: _story(root, seed, scenario, plan, state, observe, noted))
    finally:
        forget_all()
        shutil.rmtree(root, ignore_errors=True)
    assert state.trace is not None
    return Outcome(
        seed=seed,
        scenario=scenario,
        digest=state.trace.digest(),
        violations=[str(each) for each in state.violations],
        invariants=list(dict.fromkeys(each.invariant for each in state.violations)),
        plan=plan,
        choices=choose.taken if isinstance(choose, SeededOrder) else dict(choose.choices),
        events=state.trace.number,
        steps=loop.steps,
        requests=state.cluster.network.requests if state.cluster else 0,
        minutes=loop.time() / 60,
        seconds=time.perf_counter() - began,
        counts=dict(sorted(state.trace.counts.items())),
        guarded=state.checks.guarded() if state.checks else {},
        worst_wait=state.checks.worst_wait() if state.checks else None,
        gaps=state.availability.end(loop.time()) if state.availability else [],
        cells=state.coverage.cells() if state.coverage else {},
        lines=[event.line() for event in state.trace.events] if lines else [],
        points=state.points.passed if noted and state.points else [],
    )


class _RunState:
    """What is known of a run from outside."""

    def __init__(self, chance: Random) -> None:
        self.trace: Trace | None = None
        self.cluster: SimulatedCluster | None = None
        self.points: FaultPoints | None = None
        self.checks: Checks | None = None
        self.coverage: Coverage | None = None
        self.availability: Availability | None = None
        self.opinions = SecondOpinions(chance)
        self.violations: list[Violation] = []

    def raised(self, where: str, error: BaseException) -> None:
        """A part has caught an exception, or has not waited for a task that ended with one."""
        if self.trace is not None:
            actor = current_actor()
            name = actor.name if actor is not None else "plan"
            self.trace(name, "truth.raised", where=where, error=type(error).__name__, _error=error)


def _run(loop: SimulationLoop, state: _RunState, story: Callable[[], Any]) -> None:
    gc_was = gc.isenabled()
    gc.disable()  # finalizers run at the same points in every run
    try:
        loop.run_until_complete(story())
    except (Deadlock, Livelock, Escape) as error:
        number = state.trace.number if state.trace else 0
        state.violations.append(Violation(type(error).__name__, str(error), loop.time(), number))
    finally:
        if state.trace is not None:
            state.trace.close()
        end(loop, state.cluster.actors if state.cluster else [])
        state.violations = list(state.violations)
        if gc_was:
            gc.enable()
        if state.trace is not None and state.trace.failure is not None:
            raise state.trace.failure


async def _story(
    root: Path,
    seed: int,
    scenario: Scenario,
    plan: Plan,
    state: _RunState,
    observe: Callable[[Trace], object],
    noted: bool,
) -> None:
    cluster = SimulatedCluster(root, seed, scenario)
    state.cluster, state.trace, state.points = cluster, cluster.trace, FaultPoints(cluster, plan, noted=noted)
    state.availability = Availability(cluster.trace, scenario.sets)
    observe(cluster.trace)
    checks = state.checks = Checks(cluster.trace, Settings.of_scenario(scenario))
    state.violations, state.coverage = checks.violations, Coverage(cluster.trace, scenario, checks)
    checks.follow(Recomputed(cluster.trace, cluster.living, checks.found))
    checks.follow(CachesAreTrue(cluster.trace, cluster.caches, checks.found))
    holds = StoreHoldsItsLog(cluster.trace, lambda: cluster.store, checks.found)
    checks.follow(holds)
    checks.follow(ReadsAreTrue(cluster.trace, holds.model, checks.found))
    checks.follow(NodeMemory(cluster, checks.found))
    state.opinions.follow(cluster.trace, checks.found)
    checks.follow(state.opinions)
    quiet, memory, player = QuietPeriod(cluster), Memory(cluster), PlanPlayer(cluster)
    reads = QuietReads(cluster, quiet)
    await cluster.start()
    await player.users.create_workloads()
    player.manifests.write_all()
    cluster.user.start(player.play(without_points(plan))).add_done_callback(check)
    await _until(scenario.heal_s)
    await player.heal()
    await _until(scenario.end_s)
    await _complain(state, complaints(cluster, quiet))
    await _complain(state, records.complaints(cluster))
    await _complain(state, templates.complaints(cluster))
    await _complain(state, disks.complaints(cluster))
    await _complain(state, contents.complaints(cluster))
    await _complain(state, kept_snapshots.complaints(cluster))
    await _complain(state, attributes.complaints(cluster))
    for invariant, message in (*memory.complaints(), *reads.complaints(), *kept_in_log(holds, cluster.log)):
        state.violations.append(
            Violation(invariant, message, asyncio.get_running_loop().time(), state.trace.number)
        )
    if not state.violations:  # else it is no wonder
        await _complain(state, Restarted(cluster).complaints())


async def _complain(state: _RunState, found: AsyncIterator[Complaint]) -> None:
    assert state.trace is not None
    async for invariant, message in found:
        moment = asyncio.get_running_loop().time()
        state.violations.append(Violation(invariant, message, moment, state.trace.number))


async def _until(moment: float) -> None:
    await asyncio.sleep(max(moment - asyncio.get_running_loop().time(), 0))
