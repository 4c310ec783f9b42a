"""What the clients of a run count: writes that were acknowledged, and those whose outcome is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one run. Times in seconds of the run's clock."""

    clock: Callable[[], float]
    acknowledged: int = 0
    unknown: int = 0
    reads: int = 0
    longest_silence: float = 0.0
    """Without an acknowledged write."""
    silence_began: float = 0.0
    last: float = field(default=0.0)

    def write(self, known: bool) -> None:
        """A write is over."""
        if not known:
            self.unknown += 1
            return
        now = self.clock()
        if self.acknowledged and now - self.last > self.longest_silence:
            self.longest_silence, self.silence_began = now - self.last, self.last
        self.acknowledged += 1
        self.last = now
