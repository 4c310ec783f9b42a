"""A simulated machine's hardware watchdog: it counts in true time, whatever its machine does, and is fed once
more when its device is closed, as Linux's are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

from mooring.node.self_fence.watchdog import Armed

NAME = "the simulated hardware"


class SimulatedWatchdog:
    """One machine's. `bites` resets it, in `world`."""

    def __init__(self, bites: Callable[[], None], world: Context) -> None:
        self._bites, self._world = bites, world
        self._seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def arm(self, seconds: float) -> Armed:
        self._seconds = seconds
        self._feed()
        return Armed(NAME, seconds, fed_by_close=True)

    async def feed(self) -> None:
        self._feed()

    async def disarm(self) -> None:
        self.off()

    def closed(self) -> None:
        """Its agent has ended, however that was."""
        if self._seconds:
            self._feed()

    def off(self) -> None:
        """The machine has no power, or it is disarmed."""
        self._seconds = 0.0
        self._stop()

    def _feed(self) -> None:
        self._stop()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._bite, context=self._world)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _bite(self) -> None:
        self.off()
        self._bites()
