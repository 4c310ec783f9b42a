"""Whether EC2 answers and accepts our credentials: the answer to Probe.

Guarantees: success is cached for `GOOD_S`, so that probes are cheap; failure is not, so that a probe does not
report an old one. At most one call to EC2 is in flight, however many probes there are. Each probe is answered
within `TIMEOUT_S`, also when EC2 does not answer.
"""

from __future__ import annotations

import asyncio

from mooring.csi.errors import Code, CsiError
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.paced import THROTTLED
from mooring.ebs.errors import EbsError, Ec2Error

GOOD_S = 300.0
"""Seconds for which a successful check is cached."""
TIMEOUT_S = 10.0
"""Seconds that a probe waits for EC2. The call may take longer to end (`api`); until then no other one is
made."""

_YES = THROTTLED | {"DryRunOperation"}
"""Error codes that prove valid credentials: EC2 throttles only callers that it has authenticated."""


class Readiness:
    """Calls EC2 by `api`, which must not be the paced one, so a probe does not queue behind other calls. To
    be made in a running event loop."""

    def __init__(self, api: Ec2Api) -> None:
        self._api = api
        self._loop = asyncio.get_running_loop()
        self._good_until = float("-inf")
        self._asking: asyncio.Task[str] | None = None

    async def check(self) -> None:
        """Raises CsiError, FAILED_PRECONDITION, with EC2's message."""
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
        """The answer of the call in flight, or of a new one; also after the caller that started it gave
        up."""
        while True:
            if self._asking is None or self._asking.done():
                self._asking = self._loop.create_task(self._ask())
            asking = self._asking
            await asyncio.wait([asking])
            if not asking.cancelled():
                return asking.result()

    async def _ask(self) -> str:
        """The problem as text; empty if there is none."""
        try:
            await self._api.call("DescribeAvailabilityZones", {"DryRun": True})
        except EbsError as error:
            if not (isinstance(error, Ec2Error) and error.code in _YES):
                return str(error)
        self._good_until = self._loop.time() + GOOD_S
        return ""
