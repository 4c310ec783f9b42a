"""A machine's hardware watchdog, as its supervisor plays it: outside the machine's kernel, on this host's own
monotonic clock. It runs on when the machine is paused, and what it does the machine cannot keep it from.

It knows nothing of machines: `bites` is called once, so many seconds after it was last fed.
"""

from __future__ import annotations

from typing import Any

from mooring.node.self_fence.countdown import Countdown

LONGEST_S = 3600.0


class PlayedWatchdog(Countdown):
    """One machine's. Its methods are called in the event loop."""

    def asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """Does what the machine asks for (`node.self_fence.supervised`); the answer."""
        seconds = request.get("seconds")
        match request.get("do"):
            case "arm" if isinstance(seconds, int | float) and 0 < seconds <= LONGEST_S:
                self.arm(float(seconds))
            case "feed" if self.seconds:
                self.feed()
            case "disarm":
                self.off()
            case "feed":
                return {"error": "it is not armed"}
            case other:
                return {"error": f"it does not know {str(other)[:50]!r} for {str(seconds)[:50]} s"}
        return {"seconds": self.seconds}
