"""The base of checkers. A checker listens to a trace, keeps little state, and reports violations.

It knows nothing of the parts, so a test can run it on a trace written by hand. It also counts how often the
trace had something to check: a checker with a count of 0 has shown nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mooring.simulation.engine.trace import Event, Trace


@dataclass(frozen=True)
class Violation:
    """An invariant that did not hold: at which event, and what was seen."""

    invariant: str
    message: str
    time: float
    event: int

    def __str__(self) -> str:
        return f"{self.invariant} at {self.time:.3f} s (event {self.event}): {self.message}"


Found = Callable[[str, str, Event], None]
"""Takes the invariant, what was seen, and the event at which it was seen."""


class Guarded(Protocol):
    """What has a name, and counts how often it had something to look at."""

    name: str
    guarded: int


class Checker:
    """`name` is the invariant's; `guarded` counts how often it had something to look at. A checker makes its
    state in `__init__`, and there listens to the events of `trace` that concern it."""

    name = ""

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self.guarded = 0

    def wrong(self, message: str, event: Event) -> None:
        """The invariant does not hold."""
        self._found(self.name, message, event)
