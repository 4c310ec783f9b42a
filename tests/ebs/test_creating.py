"""Waiting for a new volume, before an EC2 that shows what a story says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from played_ec2 import Looks, PlayedEc2

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.creating import available
from mooring.ebs.controller_service.parameters import VolumeParameters
from mooring.ebs.controller_service.volume_requests import Wanted
from mooring.ebs.ec2.records import Volume
from mooring.ebs.ec2.settling import Settling

ID = "vol-0123456789abcdef0"
Run = Callable[[Coroutine[Any, Any, Any]], Any]


def volume(state: str) -> Volume:
    return Volume(ID, state, 10, "gp3", "zone-a")


def wait_for(looks: Looks, made: str = "creating", **parameters: Any) -> Awaitable[Volume]:
    """Waits for a volume that EC2 answered as `made`, and shows as `looks` says."""
    played: Any = PlayedEc2(looks)
    wanted = Wanted(
        name="pvc-1", size=10, capacity=csi.CapacityRange(), parameters=VolumeParameters(**parameters), iops=0,
        multi_attach=False, topology=csi.TopologyRequirement(), places=(), tags={},
    )  # fmt: skip
    return available(played, Settling(), volume(made), wanted)


async def refusal(call: Awaitable[object]) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("state", ["available", "in-use"])
def test_a_volume_that_can_be_used_is_waited_for_also_where_it_is_not_shown_at_first(
    run: Run, state: str
) -> None:
    async def story() -> None:
        shown = await wait_for(
            lambda at: None if at < 20 else volume("creating") if at < 40 else volume(state)
        )
        assert shown == volume(state)
        assert asyncio.get_running_loop().time() >= 40

    run(story())


@pytest.mark.parametrize(
    ("shown", "words"),
    [(volume("creating"), "is still being created"), (None, "is not shown")],
    ids=["creating", "not shown"],
)
def test_a_volume_that_takes_longer_than_a_minute_is_told_with_what_ec2_shows(
    run: Run, shown: Volume | None, words: str
) -> None:
    async def story() -> None:
        await asyncio.sleep(1000)
        error = await refusal(wait_for(lambda at: shown))
        assert (error.code, error.message) == (
            Code.UNAVAILABLE, f"volume {ID} for pvc-1 {words} after 60 s"
        )  # fmt: skip
        assert 1060 < asyncio.get_running_loop().time() < 1076

    run(story())


def test_a_volume_that_goes_wrong_at_ec2_is_an_error_that_says_what_to_do(run: Run) -> None:
    async def story() -> None:
        error = await refusal(wait_for(lambda at: volume("creating" if at < 5 else "error")))
        assert (error.code, error.message) == (
            Code.INTERNAL, f"volume {ID} for pvc-1 went wrong at EC2: delete it there, then try again"
        )  # fmt: skip

    run(story())


@pytest.mark.parametrize("shown", ["creating", "available"])
def test_a_volume_that_was_shown_has_vanished_when_it_is_missing_for_the_lag(run: Run, shown: str) -> None:
    """What EC2 has answered as available is as good as shown."""

    async def story() -> None:
        gone_at = 10 if shown == "creating" else 0
        error = await refusal(wait_for(lambda at: volume("creating") if at < gone_at else None, shown))
        assert error.code is Code.FAILED_PRECONDITION
        assert error.message.startswith(f"EC2 made volume {ID} for pvc-1, and then it vanished: ")
        assert gone_at + 5 <= asyncio.get_running_loop().time() < 40

    run(story())


def test_a_volume_that_is_missing_now_and_then_for_less_than_the_lag_has_not_vanished(run: Run) -> None:
    async def story() -> None:
        await wait_for(
            lambda at: volume("available") if at > 50 else None if at % 4 < 2 else volume("creating")
        )
        assert asyncio.get_running_loop().time() > 50

    run(story())


@pytest.mark.parametrize("state", ["deleting", "deleted"])
def test_a_volume_that_is_deleted_has_vanished_at_once(run: Run, state: str) -> None:
    async def story() -> None:
        assert "it vanished" in (await refusal(wait_for(lambda at: volume(state)))).message
        assert asyncio.get_running_loop().time() == 0

    run(story())


KEY = (
    "does not exist, is disabled, or may not be used by the driver's role: kms:CreateGrant, "
    "kms:GenerateDataKeyWithoutPlaintext, kms:Decrypt"
)


@pytest.mark.parametrize(
    ("parameters", "cause"),
    [
        ({"encrypted": True, "kms_key_id": "alias/k"}, f"most likely the KMS key alias/k {KEY}"),
        ({"encrypted": True}, f"most likely the KMS key (the default one) {KEY}"),
        (
            {},
            "was it deleted by hand? If volumes are encrypted by default, look at the default KMS key",
        ),
    ],
)
def test_a_volume_that_has_vanished_is_told_with_the_likely_cause(
    run: Run, parameters: dict[str, Any], cause: str
) -> None:
    async def story() -> None:
        error = await refusal(wait_for(lambda at: volume("deleting"), **parameters))
        assert error.message == f"EC2 made volume {ID} for pvc-1, and then it vanished: {cause}"

    run(story())
