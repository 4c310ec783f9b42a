"""Whether the controller can work: EC2 answers, and takes our credentials. The answer to Probe.

Guarantees: EC2's yes is good for a while, so that probes are cheap; a no is not, so that they are true.
However many probes there are, one call at a time asks EC2. Each probe has its answer in time, also when EC2
gives none.
"""

from __future__ import annotations

import asyncio

from mooring.csi.errors import Code, CsiError
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.paced import THROTTLED
from mooring.ebs.errors import EbsError, Ec2Error

GOOD_S = 300.0
"""For so long EC2's yes is good."""
TIMEOUT_S = 10.0
"""So long an answer is waited for. The call may take longer to end (`api`); no other one is made until it
has."""

_YES = THROTTLED | {"DryRunOperation"}
"""EC2 throttles only those whom it knows."""


class Readiness:
    """Asks EC2 by `api`, without waiting for a turn among other calls. Is made in a running event loop."""

    def __init__(self, api: Ec2Api) -> None:
        self._api = api
        self._loop = asyncio.get_running_loop()
        self._good_until = float("-inf")
        self._asking: asyncio.Task[str] | None = None

    async def check(self) -> None:
        """Raises CsiError, FAILED_PRECONDITION, with EC2's words."""
        if self._loop.time() < self._good_until:
            return
        try:
            async with asyncio.timeout(TIMEOUT_S):
                problem = await self._answer()
        except TimeoutError:
            problem = f"no answer within {TIMEOUT_S:g} s"
            if self._asking is not None:
                self._asking.cancel()
        if problem:
            raise CsiError(Code.FAILED_PRECONDITION, f"EC2 cannot be used: {problem}")

    async def _answer(self) -> str:
        """Of the call that is under way, or of a new one; also if its first caller has given up meanwhile."""
        while True:
            if self._asking is None or self._asking.done():
                self._asking = self._loop.create_task(self._ask())
            asking = self._asking
            await asyncio.wait([asking])
            if not asking.cancelled():
                return asking.result()

    async def _ask(self) -> str:
        """What is wrong; empty if nothing is."""
        try:
            await self._api.call("DescribeAvailabilityZones", {"DryRun": True})
        except EbsError as error:
            if not (isinstance(error, Ec2Error) and error.code in _YES):
                return str(error)
        self._good_until = self._loop.time() + GOOD_S
        return ""
