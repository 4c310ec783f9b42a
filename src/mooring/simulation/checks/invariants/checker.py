"""What a checker is: it listens to a trace, keeps little state, and says what it found wrong.

It knows nothing of the parts, so it can be tried on a trace written by hand. It also counts how often what it
looks at came to pass at all: a checker that had nothing to look at has shown nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


class Checker:
    """`name` is the invariant's; `guarded` counts how often it had something to look at."""

    name = ""

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self.guarded = 0
        self.listen(trace)

    def listen(self, trace: Trace) -> None:
        """Says which events it wants to hear of."""
        raise NotImplementedError

    def wrong(self, message: str, event: Event) -> None:
        """The invariant does not hold."""
        self._found(self.name, message, event)
