"""The probe whether EC2 can be used: EC2 is asked rarely, and the probe is answered in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.readiness import GOOD_S, TIMEOUT_S, Readiness
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.errors import Ec2Error
from mooring.mounts.blocking import finish


class SlowApi(Ec2Api):
    """Its requests end after `seconds`, whether or not the caller still waits for them."""

    def __init__(self, seconds: float, code: str = "DryRunOperation") -> None:
        self.seconds = seconds
        self.code = code
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def calls(self) -> int:
        return len(self.asked)

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((action, request))
        await finish(asyncio.ensure_future(asyncio.sleep(self.seconds)))
        raise Ec2Error(self.code, "", action)


def test_many_probes_are_one_question(run) -> None:
    async def story() -> None:
        api = SlowApi(1)
        readiness = Readiness(api)
        await asyncio.gather(*(readiness.check() for _ in range(5)))
        await readiness.check()
        assert api.calls == 1
        await asyncio.sleep(GOOD_S)
        await readiness.check()
        assert api.calls == 2

    run(story())


def test_a_probe_asks_only_whether_it_might_ask(run) -> None:
    async def story() -> None:
        api = SlowApi(1)
        await Readiness(api).check()
        assert api.asked == [("DescribeAvailabilityZones", {"DryRun": True})]

    run(story())


def test_a_probe_has_its_answer_in_time_though_the_request_goes_on(run) -> None:
    async def story() -> None:
        api = SlowApi(35)
        readiness, time = Readiness(api), asyncio.get_running_loop().time
        for tries in (1, 2, 3):
            with pytest.raises(CsiError, match="no answer within") as caught:
                await readiness.check()
            assert caught.value.code is Code.FAILED_PRECONDITION
            assert time() == tries * TIMEOUT_S
        assert api.calls == 1
        api.seconds = 1
        await readiness.check()
        assert (time(), api.calls) == (36, 2)

    run(story())


def test_who_stops_asking_leaves_the_question_to_others(run) -> None:
    async def story() -> None:
        api = SlowApi(5)
        readiness = Readiness(api)
        first = asyncio.ensure_future(readiness.check())
        await asyncio.sleep(1)
        first.cancel()
        await readiness.check()
        assert api.calls == 1

    run(story())


def test_after_a_no_the_next_probe_asks_again(run) -> None:
    async def story() -> None:
        api = SlowApi(1, "AuthFailure")
        readiness = Readiness(api)
        for _ in range(2):
            with pytest.raises(CsiError, match="AuthFailure"):
                await readiness.check()
        api.code = "DryRunOperation"
        await readiness.check()
        assert api.calls == 3

    run(story())
