"""Single faults at single points of a run: at a part's n-th request, at the n-th thing that its watches tell,
at its n-th list.

Which points there are is noted while a run is played, so all of them can be tried, one after the other. In a
plan a point is a step like others: `on` is the part, `how` the number, counted from the beginning of the run.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from mooring.kube.transport import Request
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.part import Part
from mooring.simulation.cluster.plan import Plan, PlanStep
from mooring.simulation.engine.event_loop import SimulationLoop

KINDS: dict[str, tuple[str, ...]] = {
    "request": ("request-lost", "reply-lost", "crash-before", "crash-after"),
    "event": ("event-late", "event-dropped"),
    "list": ("list-stale",),
}
"""What may happen at a point. `crash-after`: when the request has been sent, and takes effect."""
GROUPS = {kind: group for group, kinds in KINDS.items() for kind in kinds}
RESTART_S = 5.0
"""A part that crashed at a point is started anew after this time."""


class FaultPoint(msgspec.Struct, frozen=True):
    """A place where something may happen: `number` counts the group's points of the part. `at` in seconds;
    `callback` counts those of the run."""

    part: str
    group: str
    number: int
    at: float
    callback: int
    what: str

    def steps(self) -> list[PlanStep]:
        """One for each thing that may happen there."""
        return [PlanStep(0.0, kind, self.part, how=self.number) for kind in KINDS[self.group]]


class FaultPoints:
    """The points of one run as they are passed, and what happens at those that the plan names. Where nothing
    is to happen at any they are passed unseen, unless they are to be `noted`."""

    def __init__(self, cluster: SimulatedCluster, plan: Plan, *, noted: bool) -> None:
        self.passed: list[FaultPoint] = []
        self._cluster = cluster
        self._planned = {
            (step.on, GROUPS[step.what], step.how): step.what for step in plan if step.what in GROUPS
        }
        self._count: defaultdict[tuple[str, str], int] = defaultdict(int)
        for part in cluster.parts() if noted or self._planned else ():
            part.link.interceptor = _PointInterceptor(self, part)

    def pass_by(self, part: Part, group: str, what: str) -> str:
        """Notes a point; what happens there, or nothing ("")."""
        number = self._count[part.name, group]
        self._count[part.name, group] += 1
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulationLoop)
        self.passed.append(FaultPoint(part.name, group, number, loop.time(), loop.steps, what))
        planned = self._planned.get((part.name, group, number), "")
        if planned:
            self._cluster.trace("plan", "plan.point", part=part.name, what=planned, at=what)
        if planned.startswith("crash"):
            part.kill()
            loop.call_later(RESTART_S, part.start, context=self._cluster.context)
        return planned


class _PointInterceptor:
    """What a link asks at each of its points."""

    def __init__(self, points: FaultPoints, part: Part) -> None:
        self._points, self._part = points, part

    def request(self, request: Request) -> str:
        """Renewals of a Lease are no points: one is like the other."""
        if "/leases" in request.path:
            return ""
        return self._points.pass_by(self._part, "request", f"{request.method} {request.path}")

    def event(self, piece: bytes) -> str:
        return self._points.pass_by(self._part, "event", piece[:40].decode(errors="replace"))

    def list(self, path: str) -> str:
        return self._points.pass_by(self._part, "list", path)


def without_points(plan: Plan) -> Plan:
    """The steps that have a time."""
    return tuple(step for step in plan if step.what not in GROUPS)


def single_faults(passed: Iterable[FaultPoint]) -> list[PlanStep]:
    """Every single thing that may happen at these points."""
    return [step for point in passed for step in point.steps()]
