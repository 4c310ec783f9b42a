"""This boot of the machine: which one it is, and how long it has lasted, also while the machine slept.

The event loop's clock stands in a suspend, so what was looked at before seems to be new when the machine
wakes up. A leaf.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Which boot of the kernel it is."""
    return _BOOT_ID.read_text().strip()


def boottime() -> float:
    """Seconds since the machine's start, those included in which it slept: the event loop's clock stands
    then."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Elapsed:
    """The time since it was made: the event loop's, and that in which the machine has slept meanwhile, when
    the event loop's clock stands. `began`: when it was made, by that clock."""

    def __init__(self) -> None:
        self.began, self._slept = asyncio.get_running_loop().time(), _slept()

    @property
    def seconds(self) -> float:
        slept = round(_slept() - self._slept)  # the two clocks are not read at the same instant
        return asyncio.get_running_loop().time() - self.began + slept


def _slept() -> float:
    return boottime() - time.clock_gettime(time.CLOCK_MONOTONIC)
