"""The invariant of what operators are told of another controller that does the same work."""

from __future__ import annotations

from mooring.controllers.attachdetach.foreign_writes import REPEAT_S
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.cluster.other_parties import LISTED
from mooring.simulation.engine.trace import Event, Trace

CONTROLLER = "attaching"
REASON = "AnotherAttachDetachController"
BEGINS_S = 45.0
"""Until a process that has begun has filled its caches, under its Lease."""
TOLD_S = 30.0
"""After so many seconds an Event is there: a watch has told the controller, and its recorder has sent it."""


class OthersAreTold(Checker):
    """S43': when another party writes what a node has attached, an Event of that Node says so, unless one has
    done so just before."""

    name = "S43'"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._told: dict[str, float] = {}  # node -> when
        self._since: dict[str, float] = {}  # node -> since when it has to be told
        trace.listen("plan.marked", self._marked)
        trace.listen("told.event", self._tell)
        trace.listen("store.written", self._look)
        trace.listen("store.deleted", self._deleted)

    def _marked(self, event: Event) -> None:
        node = event.fields["name"]
        just_told = event.time - self._told.get(node, -REPEAT_S) < REPEAT_S
        if event.fields["mark"] == LISTED and event.time > BEGINS_S and not just_told:
            self._since[node] = event.time

    def _tell(self, event: Event) -> None:
        if event.fields["reason"] == REASON:
            self._told[event.fields["about"]] = event.time
            self.guarded += self._since.pop(event.fields["about"], None) is not None

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            self._since.pop(event.fields["name"], None)

    def _look(self, event: Event) -> None:
        for node in [each for each, since in self._since.items() if event.time - since > TOLD_S]:
            since = self._since.pop(node)
            if not self._faults.disturbed((CONTROLLER,), since - BEGINS_S):
                self.guarded += 1
                words = f"another party has written what node {node} has attached"
                self.wrong(f"{words}, and no Event says so", event)
