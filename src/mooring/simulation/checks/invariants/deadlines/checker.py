"""The checker of deadlines: nothing that must come is waited for longer than its bound.

The clock of a wait begins when it is seen first, and begins anew with the end of each fault, and of the time
to recover from it, that explains the wait: one of the control plane, of the storage, or of a node concerned.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mooring.kube.workqueue import LAST_DELAY_S
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.deadlines.bounds import LOOKS_S, WAITS, bounds
from mooring.simulation.checks.invariants.deadlines.waits import Wait, waits
from mooring.simulation.checks.invariants.deadlines.world import World
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace


class WorstWait(msgspec.Struct, frozen=True):
    """The wait that came nearest to its bound. `seconds`: for how long no fault explained it; `cause`: the
    fault before it, if there was one."""

    what: str
    at: float
    seconds: float
    bound: float
    cause: str = ""

    @property
    def share(self) -> float:
        """Of its bound."""
        return self.seconds / self.bound

    def __str__(self) -> str:
        after = f", after {self.cause}" if self.cause else ""
        return f"{self.what}: {self.seconds:.0f} of {self.bound:.0f} s, at {self.at:.0f} s{after}"


class _Open(NamedTuple):
    since: float
    wait: Wait

    def still(self, wait: Wait) -> _Open:
        """It lasts: the nodes that were concerned before still explain why."""
        return _Open(self.since, wait._replace(nodes=wait.nodes | self.wait.nodes))


class Deadlines(Checker):
    """L12: what must come comes in time."""

    name = "L12"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self.worst: WorstWait | None = None
        for kind in (
            "store.written",
            "store.deleted",
        ):  # before the world learns of it: what has lasted until now
            trace.listen(kind, self._look)
        self._settings = Settings.of(trace)
        self._bounds = bounds(self._settings)
        self._world = World(trace)
        self._faults = Faults.of(trace)
        self._open: dict[tuple[str, str, str], _Open] = {}
        self._missed: set[tuple[str, str, str]] = set()
        self._next = 0.0

    def _look(self, event: Event) -> None:
        if event.time < self._next:
            return
        self._next = event.time + LOOKS_S
        if self._world.changed:
            self._world.changed = False
            before = self._open
            self._open = {
                wait.key: before[wait.key].still(wait) if wait.key in before else _Open(event.time, wait)
                for wait in waits(self._world, self._settings)
            }
        for key, (seen, wait) in self._open.items():
            self._judge(key, self._since(wait, seen), wait, event)

    def _since(self, wait: Wait, seen: float) -> float:
        """When the wait began. Every node that answers may fall silent."""
        if wait.kind == "unknown":
            return self._world.silent_after(wait.about, self._settings.grace_period_s)
        return seen

    def _judge(self, key: tuple[str, str, str], since: float, wait: Wait, event: Event) -> None:
        until, cause = self._faults.explained_until(wait.nodes, event.time)
        age = event.time - max(since, until)
        if age <= 0:
            return
        self.guarded += 1
        # What has waited for the end of such an act is tried again after the longest backoff.
        slow = self._faults.slowness(wait.nodes, event.time - LAST_DELAY_S)
        skewed = max((self._faults.skew(each, 0.0) for each in wait.clocks), default=0.0)
        bound = self._bounds[wait.kind] + (slow + LAST_DELAY_S if slow else 0.0) + skewed
        if self.worst is None or age / bound > self.worst.share:
            words = WAITS[wait.kind][0].format(wait.about)
            self.worst = WorstWait(words, event.time, round(age, 3), bound, cause if until > 0 else "")
        if age > bound and key not in self._missed:
            self._missed.add(key)
            words = WAITS[wait.kind][0].format(wait.about)
            self.wrong(f"{words}: waited for {age:.0f} s, of {bound:.0f} s, and no fault explains it", event)
