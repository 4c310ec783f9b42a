"""Feeds the watchdog by acknowledged renewals of the node's Lease, and by nothing else; says when this node's
time is over. The invariant, and why it holds, is in `volumes.self_fence`.

- Before a renewal is sent the time is taken (CLOCK_BOOTTIME, which also counts while the machine sleeps);
  when it is acknowledged, and not older than the limit, the watchdog is fed. The next one is sent only after.
- The watchdog is armed by the first renewal that is acknowledged, and announced by the next.
- A watchdog that cannot be relied upon is announced as such, with the reason; nothing is armed, and the node
  works as one without.

It knows no API: `node_lease` tells it of renewals, and writes what it announces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from mooring.node.self_fence.watchdog import Armed, Watchdog, WatchdogRefused
from mooring.this_boot import boottime
from mooring.volumes.self_fence import MOST_WORDS, Announcement, encoded

LOOK_S = 1.0
"""A sleeping event loop does not count the time of a sleeping machine: so often is the clock looked at."""
ENDING = 0.25
"""Of the limit: so much longer the machine has until it is reset, to end pods and unmount."""

log = structlog.get_logger("node-agent")


class LeaseLost(Exception):
    """No renewal was acknowledged for so long that this node's volumes may soon be another's."""


class Heartbeat(Protocol):
    """What hangs on the renewals of a Lease."""

    def sending(self) -> float:
        """A renewal is about to be sent: the mark to give back when it is acknowledged."""
        ...

    def announcement(self, stamp: str) -> str:
        """What the renewal of this time announces; "" and it announces nothing."""
        ...

    async def acknowledged(self, sent: float) -> bool:
        """The API server has made that renewal. Returns whether another one should tell something at once."""
        ...


class NothingToFeed:
    """Of an agent without a watchdog."""

    def sending(self) -> float:
        return 0.0

    def announcement(self, stamp: str) -> str:
        return ""

    async def acknowledged(self, sent: float) -> bool:
        return False


class SelfFence:
    """This node's watchdog. `limit`: seconds without an acknowledged renewal after which the node ends its
    pods. `refused` is called once, with the reason, if the watchdog cannot be relied upon."""

    def __init__(
        self,
        watchdog: Watchdog,
        boot_id: str,
        limit: float,
        *,
        clock: Callable[[], float] = boottime,
        refused: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._watchdog, self._boot_id, self._limit = watchdog, boot_id, limit
        self._clock, self._refused = clock, refused
        self._armed: Armed | None = None
        self._problem = ""
        self._withdrawn = False
        self._fed_for = 0.0
        """When the last renewal that has fed was sent."""

    @property
    def armed(self) -> Armed | None:
        return self._armed

    def sending(self) -> float:
        return self._clock()

    def announcement(self, stamp: str) -> str:
        if self._withdrawn or not (self._armed or self._problem):
            return ""
        made = Announcement(self._boot_id, stamp, limit_seconds=self._limit, problem=self._problem)
        if self._armed is not None:
            made = Announcement(
                self._boot_id,
                stamp,
                self._armed.device[:MOST_WORDS],
                self._armed.seconds,
                self._armed.fed_by_close,
                self._limit,
            )
        return encoded(made)

    async def acknowledged(self, sent: float) -> bool:
        if self._withdrawn or self._problem or self._clock() - sent >= self._limit:
            return False
        first = self._armed is None
        if first:
            await self._arm()
        else:
            await self._watchdog.feed()
        self._fed_for = sent
        return first

    async def _arm(self) -> None:
        wanted = self._limit * (1 + ENDING)
        try:
            self._armed = await self._watchdog.arm(wanted)
        except (WatchdogRefused, OSError, TimeoutError) as error:
            self._problem = str(error)[:MOST_WORDS]
            log.error("this node does not fence itself", why=self._problem)
            self._refused(self._problem)
            return
        log.info("watchdog armed", device=self._armed.device, seconds=self._armed.seconds, limit=self._limit)

    async def run(self) -> None:
        """Raises LeaseLost when the limit has passed."""
        while True:
            left = self._left()
            if left <= 0:
                raise LeaseLost(f"no renewal of the node's Lease was acknowledged for {self._limit:g} s")
            await asyncio.sleep(min(left, LOOK_S))

    def _left(self) -> float:
        if self._armed is None or self._withdrawn:
            return LOOK_S
        return self._fed_for + self._limit - self._clock()

    def withdraw(self) -> None:
        """From now on renewals announce nothing, and feed nothing: one of them has to be acknowledged before
        `disarm`."""
        self._withdrawn = True

    async def disarm(self) -> None:
        """After a renewal without announcement was acknowledged. Raises WatchdogRefused, OSError: then the
        machine is reset unless the next agent feeds in time."""
        assert self._withdrawn, "an announcement that still stands would be a lie"
        if self._armed is not None:
            await self._watchdog.disarm()
            self._armed = None
