"""Controllers are killed at each of their requests, right before it and right after it had its effect.

Whoever comes next finishes the work: the volume ends on the right node, was never attached twice (the array's
own record), was never taken from under a mount, and API, array and nodes agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from world import Process, World

from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]
AFTER = pytest.mark.parametrize("after", [False, True], ids=["before the request", "after its effect"])


async def killed_in(
    world: World, process: Process, names: Iterable[str], done: Callable[[], Awaitable[Any]]
) -> bool:
    """Waits until the process has crashed, and starts another in its place; False if the work is done
    before."""
    while not process.wire.crashed.is_set():
        if await done():
            process.wire.spare()
            return False
        await asyncio.sleep(0.05)
    await world.kill(process)
    world.run(names)
    return True


def at_every_request(play: Play, story: Callable[[World, int], Awaitable[bool]], least: int) -> None:
    """Plays the story with a crash at its first, second, ... request, until it has no more of them."""
    number = 0
    while play(lambda world: story(world, number)):  # noqa: B023
        number += 1
    assert number >= least, f"only {number} requests: the story does not do what it should"


@AFTER
def test_killed_while_a_volume_is_attached_for_the_first_time(play: Play, after: bool):
    async def story(world: World, number: int) -> bool:
        await world.start(nodes=1)
        process = world.processes[0]
        await asyncio.sleep(1)
        process.wire.crash_at(number, after=after)
        await world.stateful_set()
        more = await killed_in(world, process, ATTACHING, world.running)
        node = await world.until(world.running)
        await asyncio.sleep(5)
        await world.settled(node)
        assert world.array.holders(*world.array.disks) == [node]
        return more

    at_every_request(play, story, least=5)


@AFTER
def test_killed_while_a_volume_moves(play: Play, after: bool):
    async def story(world: World, number: int) -> bool:
        await world.start()
        world.array.attach_s = world.array.attach_reply_s = world.array.detach_s = 0.1
        await world.stateful_set()
        first = await world.until(world.running)
        process = world.processes[0]
        process.wire.crash_at(number, after=after)
        await world.drain(first)
        more = await killed_in(world, process, ATTACHING, lambda: world.running(other_than=first))
        second = await world.until(lambda: world.running(other_than=first))
        await asyncio.sleep(5)
        await world.settled(second)
        assert world.array.holders(*world.array.disks) == [first, second]
        return more

    at_every_request(play, story, least=12)


@AFTER
def test_killed_while_a_volume_is_taken_from_a_dead_node(play: Play, after: bool):
    async def story(world: World, number: int) -> bool:
        await world.start()
        await world.stateful_set()
        first = await world.until(world.running)
        await world.machines[first].power_off()
        await world.until(lambda: pod_is_ending(world))
        process = world.processes[0]
        process.wire.crash_at(number, after=after)
        await world.out_of_service(first)
        more = await killed_in(world, process, ATTACHING, lambda: world.running(other_than=first))
        second = await world.until(lambda: world.running(other_than=first))
        await asyncio.sleep(5)
        await world.settled(second)
        assert world.array.holders(*world.array.disks) == [first, second]
        return more

    at_every_request(play, story, least=12)


async def pod_is_ending(world: World) -> bool:
    pod = await world.pod()
    return pod is not None and pod.deleting


@AFTER
def test_killed_while_a_claim_gets_its_volume_and_a_pod_its_node(play: Play, after: bool):
    async def story(world: World, number: int) -> bool:
        await world.start(nodes=1)
        process = world.processes[1]
        await asyncio.sleep(1)
        process.wire.crash_at(number, after=after)
        await world.stateful_set()
        more = await killed_in(world, process, PLACING, world.running)
        node = await world.until(world.running)
        await asyncio.sleep(5)
        await world.settled(node)
        assert [pod.name for pod in (await world.api.list(Pod)).items] == ["app-0"]
        (claim,) = (await world.api.list(PersistentVolumeClaim)).items
        (volume,) = (await world.api.list(PersistentVolume)).items
        assert (claim.status.phase, volume.status.phase) == ("Bound", "Bound")
        assert claim.spec.volume_name == volume.name
        return more

    at_every_request(play, story, least=15)


@AFTER
def test_killed_while_a_silent_node_is_noticed(play: Play, after: bool):
    async def story(world: World, number: int) -> bool:
        await world.start()
        await world.stateful_set()
        first = await world.until(world.running)
        process = world.processes[2]
        process.wire.crash_at(number, after=after)
        await world.machines[first].power_off()
        more = await killed_in(world, process, WATCHING, lambda: pod_is_ending(world))
        await world.until(lambda: pod_is_ending(world))
        node = await world.api.get(Node, first)
        assert node.ready == "Unknown"
        assert {t.effect for t in node.spec.taints if t.key.endswith("unreachable")} == {
            "NoSchedule",
            "NoExecute",
        }
        await world.out_of_service(first)
        second = await world.until(lambda: world.running(other_than=first))
        await asyncio.sleep(5)
        await world.settled(second)
        return more

    at_every_request(play, story, least=4)


@pytest.mark.parametrize("delay", ["attach_s", "attach_reply_s", "detach_s"])
def test_killed_while_the_storage_is_at_work(play: Play, delay: str):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        first = await world.until(world.running)
        setattr(world.array, delay, 20)
        await world.drain(first)
        for _ in range(3):  # each time in the middle of the work
            await asyncio.sleep(8)
            await world.kill(world.processes[0])
            world.processes.insert(0, world.run(ATTACHING))
            world.processes.pop()
        second = await world.until(lambda: world.running(other_than=first))
        await asyncio.sleep(5)
        await world.settled(second)
        assert world.array.holders(*world.array.disks) == [first, second]

    play(story)


@AFTER
def test_an_agent_killed_while_a_volume_moves_away_from_it(play: Play, after: bool):
    async def story(world: World, number: int) -> bool:
        await world.start()
        await world.stateful_set()
        first = await world.until(world.running)
        machine = world.machines[first]
        machine.wire.crash_at(number, after=after)
        await world.drain(first)
        while not machine.wire.crashed.is_set():
            if await world.running(other_than=first):
                return False
            await asyncio.sleep(0.05)
        await machine.agent_dies()
        machine.restart_agent()
        second = await world.until(lambda: world.running(other_than=first))
        await asyncio.sleep(5)
        await world.settled(second)
        return True

    at_every_request(play, story, least=5)


def test_two_leaders_at_once_do_no_harm(play: Play):
    async def story(world: World):
        await world.start()
        world.run(ATTACHING)
        world.run(ATTACHING)
        world.array.attach_s = world.array.detach_s = 0.3
        await world.stateful_set()
        here = await world.until(world.running)
        for _ in range(4):
            await world.drain(here)
            there = await world.until(lambda here=here: world.running(other_than=here))
            await world.uncordon(here)
            here = there
        await asyncio.sleep(5)
        await world.settled(here)

    play(story)
