"""What a run had to show: how often each invariant had something to look at once a fault had struck a part.

A fault after which no checker looks at anything has shown nothing. Cells are added up over the runs of a
campaign (`search.coverage`); an empty one is a blind corner.
"""

from __future__ import annotations

from mooring.simulation.checks.invariants import Checks
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.trace import Event, Trace

Cells = dict[str, dict[str, int]]
"""Row (what happened, and to what) -> invariant -> how often it had something to look at after that."""


class Coverage:
    """Follows the steps of one run's plan."""

    def __init__(self, trace: Trace, scenario: Scenario, checks: Checks) -> None:
        self._scenario, self._checks = scenario, checks
        self._before: dict[str, dict[str, int]] = {}  # row -> what had been looked at when it came up first
        trace.listen("plan.step", self._step)

    def _step(self, event: Event) -> None:
        row = f"{event.fields['what']} {self._struck(event.fields['on'])}"
        if row not in self._before:
            self._before[row] = self._checks.guarded()

    def _struck(self, part: str) -> str:
        if part in self._scenario.node_names:
            return "node"
        return "workload" if part in self._scenario.sets else part

    def cells(self) -> Cells:
        """What came after each fault, and in the whole run with this driver and storage."""
        after = self._checks.guarded()
        begun = {f"driver {self._scenario.driver}/{self._scenario.storage}": dict.fromkeys(after, 0)}
        return {
            row: {name: after[name] - number for name, number in before.items()}
            for row, before in sorted((begun | self._before).items())
        }
