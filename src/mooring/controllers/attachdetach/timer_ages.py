"""For how long the timers on VolumeAttachments have run.

Their beginnings are stored, so that a restart does not lengthen them, and are times of the clock of who has
begun them. By a clock that is set an hour ahead meanwhile a timer would have run out at once, and a node that
was silent for a moment be cut off from its volumes; by one that is set back it would not for that hour. So
the wall clock is read once for each: when this process sees it first, which is at once if it has begun it.
From then on the event loop's clock counts, which does not jump. What was begun by another controller whose
clock is wrong is as wrong as that.

Of a Node that is absent no stored time counts: an agent that lives makes its Node anew within the 40 s, and
after a restart they are waited for once more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from mooring.controllers.attachdetach.state import Attachment
from mooring.kube.times import Now, parse_time


class TimerAges:
    """Those of all volumes."""

    def __init__(self, now: Now) -> None:
        self._now = now
        self._since: dict[str, dict[str, float]] = {}  # volume -> a timer's time -> since when (the loop's)

    def of(self, volume: str, attachments: Sequence[Attachment]) -> dict[str, float]:
        """For how many seconds each of the volume's timers has run, by its time. The rest is forgotten."""
        known, here = self._since.pop(volume, {}), asyncio.get_running_loop().time()
        since: dict[str, float] = {}
        for held in attachments:
            for time, is_stored in ((held.force_since, True), (held.absent_since, False)):
                if time:
                    ran = self._before(time) if is_stored and time not in known else 0.0
                    since[time] = known.get(time, here - ran)
        if since:
            self._since[volume] = since
        return {time: round(here - first, 3) for time, first in since.items()}

    def _before(self, time: str) -> float:
        """By the wall clock; 0 for a time that is ahead, or none."""
        with contextlib.suppress(ValueError):
            return max((self._now() - parse_time(time)).total_seconds(), 0.0)
        return 0.0
