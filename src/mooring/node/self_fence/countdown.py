"""The time of a watchdog that is played in an event loop, outside the machine that it resets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context


class Countdown:
    """Calls `bites` once, so many seconds after it was last fed, in `context`."""

    def __init__(self, bites: Callable[[], None], context: Context | None = None) -> None:
        self._bites, self._context = bites, context
        self._seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """From the last feeding to the reset; 0 while it is not armed."""
        return self._seconds

    def arm(self, seconds: float) -> None:
        self._seconds = seconds
        self.feed()

    def feed(self) -> None:
        """Only when armed."""
        self._stop()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._bite, context=self._context)

    def off(self) -> None:
        """The machine has no power, or it was disarmed: it bites no more. Idempotent."""
        self._seconds = 0.0
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _bite(self) -> None:
        self.off()
        self._bites()
