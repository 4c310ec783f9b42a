"""What is kept up to date change by change, compared with what it would be if it were computed anew.

D2: at any moment the indices of every living controller's caches are those of the objects in them, and
whatever the attach/detach controller would write about a volume now is in its queue, and what the binder and
the provisioner would do about a claim or a volume, and what a StatefulSet's would about a set: no change was
missed.
D3: in the end every controller and agent is started anew, and none of them finds anything to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.kube.controller import Controller
from mooring.kube.errors import NotLeading
from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.checks.looks_again import LooksAgain
from mooring.simulation.checks.quiet_period import HEARTBEATS, is_in_vain, shares
from mooring.simulation.checks.second_opinions.work_left import is_current, may_leave_work, work_left
from mooring.simulation.checks.undefined import Undefined
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.engine.trace import Event, Trace

EVERY = 16
"""Of so many writes one is followed by a comparison: what was missed stays so for a while."""
RESTART_S = 45.0
"""Seconds in which what starts anew would begin what it finds to do."""

Living = Callable[[], Iterable[Controller[Any]]]


class Recomputed:
    """D2, on one run. `guarded`: how many controllers were compared."""

    name = "D2"

    def __init__(self, trace: Trace, living: Living, found: Found) -> None:
        self._living, self._found = living, found
        self._last: dict[str, int] = {}  # kind -> the version of its last change
        self._written = self.guarded = 0
        trace.listen("store.written", self._note)
        trace.listen("store.deleted", self._note_change)

    def _note_change(self, event: Event) -> None:
        self._last[event.fields["resource"]] = event.fields["version"]

    def _note(self, event: Event) -> None:
        self._note_change(event)
        self._written += 1
        if self._written % EVERY:
            return
        for controller in self._living():
            self.guarded += 1
            for difference in _differences(controller, self._last):
                self._found(self.name, f"{controller.name}: {difference}", event)


def _differences(controller: Controller[Any], last: Mapping[str, int]) -> Iterator[str]:
    for cache in controller.caches:
        yield from cache.misplaced()
    if may_leave_work(controller) and is_current(controller, last) and _leads(controller):
        yield from work_left(controller)
    if isinstance(controller, AttachDetachController) and _leads(controller):
        for volume in sorted(controller.volumes()):
            if missed := controller.missed(volume):
                yield f"{missed.action.value} of {volume} on {missed.node} was missed ({missed.reason.message})"


def _leads(controller: Controller[Any]) -> bool:
    """Whether it may act. One that has lost its Lease works on nothing any more, and gives it up."""
    try:
        controller.client.check_leading()
    except NotLeading:
        return False
    return True


def _waits(event: Event) -> bool:
    """Whether it is about a pod that waits: its agent says anew what for, step by step."""
    return event.fields["resource"] == "pods" and object_of(event).status.phase == "Pending"


class Restarted:
    """D3: counts what is written when everything is started anew at the end of a run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._written: list[str] = []
        self._again, self._undefined = LooksAgain.of(cluster.trace), Undefined.of(cluster.trace)

    async def complaints(self) -> AsyncIterator[Complaint]:
        """Starts all controllers and agents anew, and yields what they found to do."""
        trace = self._cluster.trace
        for kind in ("store.written", "store.deleted"):
            trace.listen(kind, self._note)
        for part in self._cluster.parts():
            if part.name in self._cluster.powered or part.name not in self._cluster.machines:
                part.kill()
                part.start()
        await asyncio.sleep(RESTART_S)
        if self._written:
            yield (
                "D3",
                f"{len(self._written)} writes after a restart of all that is idle, such as {self._written[0]}",
            )

    def _note(self, event: Event) -> None:
        if event.fields["resource"] in HEARTBEATS or _waits(event) or event in self._again:
            return
        if event in self._undefined:
            return
        if not is_in_vain(event, self._cluster.silent, shared=shares(self._cluster.scenario)):
            self._written.append(f"{event.fields['resource']} {event.fields['name']} ({event.kind})")
