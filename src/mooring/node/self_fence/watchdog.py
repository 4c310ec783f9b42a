"""What a watchdog can do, whichever it is: be armed, be fed, be disarmed.

Guarantees of every watchdog: it resets the whole machine so many seconds after it was last fed, by something
that does not stand still with the machine; `arm` refuses where that is not known to be so, and has armed
nothing then. What was done is done when a call returns. An agent that ends leaves it armed.

It must not know when it is fed, nor why.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
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


def watchdog_at(path: Path) -> Watchdog:
    """The watchdog of that device, or of that socket of a machine's supervisor. What it is, is looked at when
    it is armed."""
    from mooring.node.self_fence.linux import LinuxWatchdog
    from mooring.node.self_fence.supervised import SupervisedWatchdog

    try:
        mode = path.stat().st_mode
    except OSError:
        return NoWatchdog(
            f"there is no {path}: this machine has no watchdog outside its kernel, as far as it shows"
        )
    if stat.S_ISSOCK(mode):
        return SupervisedWatchdog(path)
    if stat.S_ISCHR(mode):
        return LinuxWatchdog(path)
    return NoWatchdog(
        f"{path} is neither a device nor a socket: give /dev/watchdog0, or another one's number"
    )


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
