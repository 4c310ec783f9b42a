"""Calls keep to EC2's quotas."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.paced import PacedApi
from mooring.ebs.errors import Ec2Error, Ec2Unreachable


class Script(Ec2Api):
    """Answers call after call as told; then with success."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[tuple[float, Mapping[str, Any]]] = []

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append((asyncio.get_running_loop().time(), request))
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        return {"ok": True}


def throttled() -> Ec2Error:
    return Ec2Error("RequestLimitExceeded", "Request limit exceeded.")


def paced(script: Script, pacing: bool = True) -> PacedApi:
    return PacedApi(script, random.Random(0).random, pacing)


def test_calls_beyond_the_burst_wait_in_the_order_of_their_coming(run) -> None:
    async def story() -> None:
        script = Script()
        api = paced(script)
        await asyncio.gather(*(api.call("AttachVolume", {"Number": number}) for number in range(60)))
        assert [request["Number"] for _, request in script.calls] == list(range(60))
        assert [time for time, _ in script.calls[:48]] == [0.0] * 48
        assert script.calls[-1][0] == pytest.approx(12 / 5)

    run(story())


def test_each_action_has_its_own_lane(run) -> None:
    async def story() -> None:
        script = Script()
        api = paced(script)
        waiting = [asyncio.ensure_future(api.call("AttachVolume", {})) for _ in range(100)]
        await asyncio.sleep(0)
        await api.call("DetachVolume", {})
        assert asyncio.get_running_loop().time() == 0
        await asyncio.gather(*waiting)

    run(story())


def test_one_that_is_cancelled_while_it_waits_is_never_sent_and_holds_nobody_up(run) -> None:
    async def story() -> None:
        script = Script()
        api = paced(script)
        waiting = [
            asyncio.ensure_future(api.call("AttachVolume", {"Number": number})) for number in range(60)
        ]
        await asyncio.sleep(0.01)
        for task in waiting[48:59]:
            task.cancel()
        await waiting[59]
        assert asyncio.get_running_loop().time() == pytest.approx(0.2)
        assert [request["Number"] for _, request in script.calls] == [*range(48), 59]

    run(story())


@pytest.mark.parametrize("pacing", [True, False])
def test_a_throttled_call_is_made_again_until_it_is_taken(run, pacing) -> None:
    async def story() -> None:
        script = Script(*(throttled() for _ in range(30)))
        assert await paced(script, pacing).call("AttachVolume", {}) == {"ok": True}
        assert len(script.calls) == 31

    run(story())


def test_a_throttled_call_goes_before_those_that_came_later(run) -> None:
    async def story() -> None:
        script = Script(throttled())
        api = paced(script)
        await asyncio.gather(*(api.call("AttachVolume", {"Number": number}) for number in range(100)))
        again = [place for place, (_, request) in enumerate(script.calls) if request["Number"] == 0][1]
        assert again < 55

    run(story())


@pytest.mark.parametrize(
    "error", [Ec2Unreachable("no answer"), Ec2Error("InternalError", ""), Ec2Error("Unavailable", "")]
)
def test_a_question_without_an_answer_is_put_again_but_not_for_ever(run, error) -> None:
    async def story() -> None:
        script = Script(error, error)
        assert await paced(script).call("DescribeVolumes", {}) == {"ok": True}
        with pytest.raises(type(error)):
            await paced(Script(*[error] * 10)).call("DescribeVolumes", {})

    run(story())


@pytest.mark.parametrize(
    "error", [Ec2Unreachable("no answer"), Ec2Error("InternalError", ""), Ec2Error("Unavailable", "")]
)
def test_a_change_of_unknown_outcome_is_not_repeated_here(run, error) -> None:
    async def story() -> None:
        script = Script(error)
        with pytest.raises(Ec2Unreachable):
            await paced(script).call("AttachVolume", {})
        assert len(script.calls) == 1

    run(story())


def test_a_refusal_is_given_on_at_once(run) -> None:
    async def story() -> None:
        with pytest.raises(Ec2Error, match="VolumeInUse"):
            await paced(Script(Ec2Error("VolumeInUse", "in use"))).call("AttachVolume", {})
        assert asyncio.get_running_loop().time() == 0

    run(story())


def test_without_pacing_nobody_waits_for_a_turn(run) -> None:
    async def story() -> None:
        script = Script()
        api = paced(script, pacing=False)
        await asyncio.gather(*(api.call("AttachVolume", {}) for _ in range(200)))
        assert {time for time, _ in script.calls} == {0.0}

    run(story())
