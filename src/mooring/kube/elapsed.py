"""How long ago something was looked at, where something is done by it that cannot be taken back."""

from __future__ import annotations

import asyncio
import time

from mooring.kube.times import boottime


class Elapsed:
    """The time since it was made: the event loop's, and that in which the machine has slept meanwhile, when
    the event loop's clock stands."""

    def __init__(self) -> None:
        self._at, self._slept = asyncio.get_running_loop().time(), _slept()

    @property
    def seconds(self) -> float:
        slept = round(_slept() - self._slept)  # the two clocks are not read at the same instant
        return asyncio.get_running_loop().time() - self._at + slept


def _slept() -> float:
    return boottime() - time.clock_gettime(time.CLOCK_MONOTONIC)
