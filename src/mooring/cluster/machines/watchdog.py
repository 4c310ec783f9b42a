"""A machine's hardware watchdog, as its supervisor plays it: outside the machine's kernel, on this host's own
monotonic clock. It runs on when the machine is paused, and what it does the machine cannot keep it from.

It knows nothing of machines: `bites` is called once, so many seconds after it was last fed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LONGEST_S = 3600.0


class PlayedWatchdog:
    """One machine's. Its methods are called in the event loop."""

    def __init__(self, bites: Callable[[], None]) -> None:
        self._bites = bites
        self._seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """From the last feeding to the reset; 0 while it is not armed."""
        return self._seconds

    def asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does what the machine asks for (`node.self_fence.supervised`); the answer."""
        seconds = request.get("seconds")
        match request.get("do"):
            case "arm" if isinstance(seconds, int | float) and 0 < seconds <= LONGEST_S:
                self._seconds = float(seconds)
                self._feed()
            case "feed" if self._seconds:
                self._feed()
            case "disarm":
                self.off()
            case "feed":
                return {"error": "it is not armed"}
            case other:
                return {"error": f"it does not know {str(other)[:50]!r} for {str(seconds)[:50]} s"}
        return {"seconds": self._seconds}

    def off(self) -> None:
        """The machine has no power, or it was disarmed: it bites no more. Idempotent."""
        self._seconds = 0.0
        self._stop()

    def _feed(self) -> None:
        self._stop()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._bite)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _bite(self) -> None:
        self.off()
        self._bites()
