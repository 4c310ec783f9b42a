"""Very many volumes at once, with EC2's own quotas: as fast as these allow, and with few calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from cloud_api import create, publish, unpublish, world


@dataclass
class Result:
    seconds: float
    describes: int
    calls: int
    throttled: int


async def storm(volumes: int, nodes: int, **options) -> Result:
    async with world(nodes, throttling=False) as w:
        request = {"Size": 1, "VolumeType": "gp3", "AvailabilityZone": "us-east-1a"}
        ids = [(await w.cloud.call("CreateVolume", request))["VolumeId"] for _ in range(volumes)]
        await asyncio.sleep(10)
        w.cloud.configure({"throttling": True})
        w.cloud.reset_counters()
        client, began = w.client(**options), asyncio.get_running_loop().time()
        await asyncio.gather(*(publish(client, id, w.nodes[number % nodes]) for number, id in enumerate(ids)))
        seconds, counted = asyncio.get_running_loop().time() - began, w.cloud.counters()
        return Result(
            seconds,
            sum(one["calls"] for action, one in counted.items() if action.startswith("Describe")),
            sum(one["calls"] for one in counted.values()),
            sum(one["throttles"] for one in counted.values()),
        )


def test_a_thousand_volumes_are_attached_at_the_quotas_speed_with_few_questions(run) -> None:
    result = run(storm(1000, 40))
    assert result.seconds <= 1.05 * (1000 - 50) / 5
    assert result.describes <= 2 * result.seconds
    assert result.throttled <= 0.01 * result.calls


def test_without_batching_and_pacing_it_takes_longer_and_most_calls_are_throttled(run) -> None:
    plain, better = run(storm(300, 12, batching=False, pacing=False)), run(storm(300, 12))
    assert plain.seconds > better.seconds
    assert plain.throttled > 0.2 * plain.calls
    assert plain.describes > 5 * better.describes


def test_two_controllers_at_once_share_the_quota_and_are_seldom_throttled(run) -> None:
    async def story() -> None:
        async with world(8, throttling=False) as w:
            request = {"Size": 1, "VolumeType": "gp3", "AvailabilityZone": "us-east-1a"}
            ids = [(await w.cloud.call("CreateVolume", request))["VolumeId"] for _ in range(160)]
            await asyncio.sleep(10)
            w.cloud.configure({"throttling": True})
            w.cloud.reset_counters()
            clients, began = [w.client(), w.client(seed=1)], asyncio.get_running_loop().time()
            await asyncio.gather(*(publish(clients[n % 2], id, w.nodes[n % 8]) for n, id in enumerate(ids)))
            attaches = w.cloud.counters()["AttachVolume"]
            assert asyncio.get_running_loop().time() - began <= 2 * (160 - 50) / 5
            assert attaches["throttles"] <= 0.4 * attaches["calls"]

    run(story())


@pytest.mark.parametrize("batching", [True, False])
def test_creating_attaching_and_detaching_many_at_once_works(run, batching) -> None:
    async def story() -> None:
        async with world(4) as w:
            client = w.client(batching=batching)

            async def one(number: int) -> None:
                node = w.nodes[number % 4]
                made = (await create(client, f"pvc-{number}")).volume_id
                await publish(client, made, node)
                await unpublish(client, made, node)

            await asyncio.gather(*map(one, range(60)))
            assert len(w.volumes()) == 60
            assert not any(w.attached(volume) for volume in w.volumes())

    run(story())
