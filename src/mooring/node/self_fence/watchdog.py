"""What a watchdog can do, whichever it is: be armed, be fed, be disarmed.

Guarantees of every watchdog: it resets the whole machine so many seconds after it was last fed, by something
that does not stand still with the machine; `arm` refuses where that is not known to be so, and has armed
nothing then. What was done is done when a call returns. An agent that ends leaves it armed.

It must not know when it is fed, nor why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class WatchdogRefused(Exception):
    """This watchdog cannot be relied upon; the message says why and what to do."""


@dataclass(frozen=True)
class Armed:
    """A watchdog as it says it is armed. `seconds`: from the last feeding to the reset. `fed_by_close`: an
    agent that ends feeds it once more."""

    device: str
    seconds: float
    fed_by_close: bool


class Watchdog(Protocol):
    """One machine's."""

    async def arm(self, seconds: float) -> Armed:
        """Opens it, sets its time to so many seconds or a little more, and feeds it. Raises WatchdogRefused,
        OSError."""
        ...

    async def feed(self) -> None:
        """Only when armed. Raises OSError."""
        ...

    async def disarm(self) -> None:
        """From now on it resets nothing. Raises WatchdogRefused if it cannot be disarmed, OSError."""
        ...


class NoWatchdog:
    """Refuses to be armed."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def arm(self, seconds: float) -> Armed:
        raise WatchdogRefused(self._why)

    async def feed(self) -> None:
        raise OSError("no watchdog is armed")

    async def disarm(self) -> None:
        """Nothing is armed."""
