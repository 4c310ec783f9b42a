"""The stories of a volume's life, with all parts in one event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from world import World

Play = Callable[[Any], Any]


def test_a_claim_gets_a_volume_and_a_pod_runs_with_it(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        node = await world.until(world.running)
        await world.settled(node)
        assert await world.event("SuccessfulAttachVolume")
        print(await world.summary())
        assert await world.event("ProvisioningSucceeded")

    play(story)


def test_a_drained_pod_moves_with_its_volume(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        first = await world.until(world.running)
        await world.drain(first)
        second = await world.until(lambda: world.running(other_than=first))
        await world.settled(second)
        assert world.array.holders(*world.array.disks) == [first, second]

    play(story)
