"""The invariants of the safety nets: the periodic sweep never finds anything, and what is periodic keeps its
period."""

from __future__ import annotations

from collections.abc import Hashable

from mooring.controllers.attachdetach.sweep import SWEEP_S
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.cluster.controllers import VERIFY_S
from mooring.simulation.engine.trace import Event, Trace

CONTROLLER = "attaching"
NEARLY = 0.9
"""Of a period, in which slices of it take turns."""
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


class KeepsItsPeriod(Checker):
    """S35: what is done again and again for safety's sake alone is done once in its period: the full sweep
    looks at a volume, and the attacher asks whether one is attached."""

    name = "S35"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._last: dict[Hashable, float] = {}
        trace.listen("told.swept", lambda event: self._look("the full sweep looks at", SWEEP_S, event))
        trace.listen("truth.verified", lambda event: self._look("the attacher verifies", VERIFY_S, event))

    def _look(self, what: str, period_s: float, event: Event) -> None:
        fields = event.fields
        key = what, fields["by"], fields["volume"], fields["node"]
        before = self._last.get(key)
        self._last[key] = event.time
        self.guarded += before is not None
        if before is not None and event.time - before < period_s * NEARLY:
            passed = event.time - before
            self.wrong(f"{what} {fields['volume']} again after {passed:.0f} s, of {period_s:.0f} s", event)
