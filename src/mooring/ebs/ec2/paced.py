"""Keeps to EC2's quotas: calls wait here, first come, first served, so that EC2 need not throttle them.

Guarantees: a throttled call is no error: it is repeated, before all later calls, until it succeeds, fails
otherwise or is cancelled. A question (Describe...) without an answer, or with an internal error of EC2's, is
repeated a few times. A mutating call with an unknown outcome is never repeated: its caller must look at EC2
first. It must not know what the calls are about.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.buckets import Bucket, bucket_name, quota
from mooring.ebs.errors import Ec2Error, Ec2Unreachable

THROTTLED = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "EC2ThrottledException",
    }
)
"""EC2's error codes for an empty bucket."""
PASSING = frozenset(
    {"InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable", "InternalServerError"}
)
"""Transient errors of EC2's; a mutating call may have been carried out all the same."""

QUESTION_TRIES = 4
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 20.0

_log = structlog.get_logger(__name__)


class PacedApi(Ec2Api):
    """Calls `api` at the rate that the quotas allow. With `pacing` off it does what an ordinary SDK does: it
    calls at once, and again after a backoff."""

    def __init__(self, api: Ec2Api, random: Callable[[], float], pacing: bool = True) -> None:
        """`random` gives numbers from [0, 1), for the jitter of backoffs."""
        self._api = api
        self._random = random
        self._pacing = pacing
        self._lanes: dict[str, _Lane] = {}
        self._arrivals = itertools.count()

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        name = bucket_name(action, request)
        lane = self._lanes.setdefault(name, _Lane(Bucket(quota(name))))
        arrival, failures = next(self._arrivals), 0
        for attempt in itertools.count(1):
            if self._pacing:
                await lane.turn(arrival)
            try:
                return await self._api.call(action, request)
            except (Ec2Error, Ec2Unreachable) as error:
                if isinstance(error, Ec2Error) and error.code in THROTTLED:
                    self._throttled(lane, name)
                else:
                    failures += 1
                    _check_repeatable(action, error, failures)
            await asyncio.sleep(self._backoff_s(attempt))
        raise AssertionError("unreachable: the attempts have no end")

    def _throttled(self, lane: _Lane, name: str) -> None:
        if self._pacing and lane.refused():
            _log.info("EC2 throttles us: calls are made more slowly", action=name, per_second=lane.rate)

    def _backoff_s(self, attempt: int) -> float:
        """Exponential backoff in seconds with jitter: evenly from the upper half of a span that doubles with
        each attempt."""
        span = min(FIRST_BACKOFF_S * 2 ** min(attempt - 1, 10), LONGEST_BACKOFF_S)
        return span * (0.5 + 0.5 * self._random())


def _check_repeatable(action: str, error: Ec2Error | Ec2Unreachable, failures: int) -> None:
    """Raises the error that ends the call after so many failures. Only a question may be repeated: a mutating
    call that EC2 did not refuse may have been carried out."""
    if isinstance(error, Ec2Error) and error.code not in PASSING:
        raise error
    if not action.startswith("Describe"):
        raise error if isinstance(error, Ec2Unreachable) else Ec2Unreachable(str(error)) from error
    if failures >= QUESTION_TRIES:
        raise error


class _Lane:
    """The calls that wait for one bucket, by their arrival."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    async def turn(self, arrival: int) -> None:
        """Waits for a token; earlier arrivals get theirs first."""
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (arrival, turn))
        self._serve()
        await turn

    def refused(self) -> bool:
        """Notes that EC2 throttled a call. Returns whether the rate was the full one until now."""
        return self._bucket.refused(asyncio.get_running_loop().time())

    @property
    def rate(self) -> float:
        """Calls per second."""
        return self._bucket.rate

    def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            if self._waiting[0][1].done():  # its task was cancelled
                heapq.heappop(self._waiting)
                continue
            wait_s = self._bucket.wait_s(loop.time())
            if wait_s > 0:
                self._timer = loop.call_later(wait_s, self._serve)
                return
            self._bucket.take(loop.time())
            heapq.heappop(self._waiting)[1].set_result(None)
