"""A simulated machine's hardware watchdog: it counts in true time, whatever its machine does, and is fed once
more when its device is closed, as Linux's are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context

from mooring.node.self_fence.countdown import Countdown
from mooring.node.self_fence.watchdog import Armed

NAME = "the simulated hardware"


class SimulatedWatchdog:
    """One machine's. `bites` resets it, in `world`."""

    def __init__(self, bites: Callable[[], None], world: Context) -> None:
        self._countdown = Countdown(bites, world)
        self.off = self._countdown.off

    async def arm(self, seconds: float) -> Armed:
        self._countdown.arm(seconds)
        return Armed(NAME, seconds, fed_by_close=True)

    async def feed(self) -> None:
        self._countdown.feed()

    async def disarm(self) -> None:
        self.off()

    def closed(self) -> None:
        """Its agent has ended, however that was."""
        if self._countdown.seconds:
            self._countdown.feed()
