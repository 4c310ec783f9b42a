"""The invariant of the safety net: the periodic sweep never finds anything."""

from __future__ import annotations

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.engine.trace import Event, Trace

CONTROLLER = "attaching"
SWEEPS_S = 600.0
"""Two sweeps: a timer of a clock that was wrong is found by the second one at the latest."""


class NothingMissed(Checker):
    """S29: the full sweep over all volumes finds nothing undone that no change and no timer has brought up;
    but for timers, where the controller's clock has jumped."""

    name = "S29"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        trace.listen("told.swept", self._swept)

    def _swept(self, event: Event) -> None:
        self.guarded += 1
        volume, node, action = (event.fields[each] for each in ("volume", "node", "action"))
        if action and not self._faults.skew(CONTROLLER, event.time - SWEEPS_S):
            self.wrong(f"only the sweep has found: {action} of {volume}, node {node}", event)
