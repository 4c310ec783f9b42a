"""Controllers are killed at each of their requests, right before it and right after it had its effect.

The successor finishes the work: the volume ends on the right node, was never attached twice (the array's
own record), was never taken from under a mount, and API, array and nodes agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from in_process_cluster import InProcessCluster, Process

from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]
AFTER = pytest.mark.parametrize("after", [False, True], ids=["before the request", "after its effect"])


async def killed_in(
    cluster: InProcessCluster, process: Process, names: Iterable[str], done: Callable[[], Awaitable[Any]]
) -> bool:
    """Waits until the process has crashed, and starts another in its place; False if the work is done
    before."""
    while not process.wire.crashed.is_set():
        if await done():
            process.wire.spare()
            return False
        await asyncio.sleep(0.05)
    await cluster.kill(process)
    cluster.run(names)
    return True


def at_every_request(
    play: Play, story: Callable[[InProcessCluster, int], Awaitable[bool]], least: int
) -> None:
    """Plays the story with a crash at its first, second, ... request, until it has no more of them."""
    number = 0
    while play(lambda cluster: story(cluster, number)):  # noqa: B023
        number += 1
    assert number >= least, f"only {number} requests: the story does not do what it should"


@AFTER
def test_killed_while_a_volume_is_attached_for_the_first_time(play: Play, after: bool):
    async def story(cluster: InProcessCluster, number: int) -> bool:
        await cluster.start(nodes=1)
        process = cluster.processes[0]
        await asyncio.sleep(1)
        process.wire.crash_at(number, after=after)
        await cluster.stateful_set()
        more = await killed_in(cluster, process, ATTACHING, cluster.running)
        node = await cluster.until(cluster.running)
        await asyncio.sleep(5)
        await cluster.settled(node)
        assert cluster.array.holders(*cluster.array.disks) == [node]
        return more

    at_every_request(play, story, least=5)


@AFTER
def test_killed_while_a_volume_moves(play: Play, after: bool):
    async def story(cluster: InProcessCluster, number: int) -> bool:
        await cluster.start()
        cluster.array.attach_s = cluster.array.attach_reply_s = cluster.array.detach_s = 0.1
        await cluster.stateful_set()
        first = await cluster.until(cluster.running)
        process = cluster.processes[0]
        process.wire.crash_at(number, after=after)
        await cluster.drain(first)
        more = await killed_in(cluster, process, ATTACHING, lambda: cluster.running(other_than=first))
        second = await cluster.until(lambda: cluster.running(other_than=first))
        await asyncio.sleep(5)
        await cluster.settled(second)
        assert cluster.array.holders(*cluster.array.disks) == [first, second]
        return more

    at_every_request(play, story, least=11)


@AFTER
def test_killed_while_a_volume_is_taken_from_a_dead_node(play: Play, after: bool):
    async def story(cluster: InProcessCluster, number: int) -> bool:
        await cluster.start()
        await cluster.stateful_set()
        first = await cluster.until(cluster.running)
        await cluster.machines[first].power_off()
        await cluster.until(lambda: pod_is_ending(cluster))
        process = cluster.processes[0]
        process.wire.crash_at(number, after=after)
        await cluster.out_of_service(first)
        more = await killed_in(cluster, process, ATTACHING, lambda: cluster.running(other_than=first))
        second = await cluster.until(lambda: cluster.running(other_than=first))
        await asyncio.sleep(5)
        await cluster.settled(second)
        assert cluster.array.holders(*cluster.array.disks) == [first, second]
        return more

    at_every_request(play, story, least=12)


async def pod_is_ending(cluster: InProcessCluster) -> bool:
    pod = await cluster.pod()
    return pod is not None and pod.deleting


@AFTER
def test_killed_while_a_claim_gets_its_volume_and_a_pod_its_node(play: Play, after: bool):
    async def story(cluster: InProcessCluster, number: int) -> bool:
        await cluster.start(nodes=1)
        process = cluster.processes[1]
        await asyncio.sleep(1)
        process.wire.crash_at(number, after=after)
        await cluster.stateful_set()
        more = await killed_in(cluster, process, PLACING, cluster.running)
        node = await cluster.until(cluster.running)
        await asyncio.sleep(5)
        await cluster.settled(node)
        assert [pod.name for pod in (await cluster.api.list(Pod)).items] == ["app-0"]
        (claim,) = (await cluster.api.list(PersistentVolumeClaim)).items
        (volume,) = (await cluster.api.list(PersistentVolume)).items
        assert (claim.status.phase, volume.status.phase) == ("Bound", "Bound")
        assert claim.spec.volume_name == volume.name
        return more

    at_every_request(play, story, least=15)


@AFTER
def test_killed_while_a_silent_node_is_noticed(play: Play, after: bool):
    async def story(cluster: InProcessCluster, number: int) -> bool:
        await cluster.start()
        await cluster.stateful_set()
        first = await cluster.until(cluster.running)
        process = cluster.processes[2]
        process.wire.crash_at(number, after=after)
        await cluster.machines[first].power_off()
        more = await killed_in(cluster, process, WATCHING, lambda: pod_is_ending(cluster))
        await cluster.until(lambda: pod_is_ending(cluster))
        node = await cluster.api.get(Node, first)
        assert node.ready == "Unknown"
        assert {t.effect for t in node.spec.taints if t.key.endswith("unreachable")} == {
            "NoSchedule",
            "NoExecute",
        }
        await cluster.out_of_service(first)
        second = await cluster.until(lambda: cluster.running(other_than=first))
        await asyncio.sleep(5)
        await cluster.settled(second)
        return more

    at_every_request(play, story, least=4)


@pytest.mark.parametrize("delay", ["attach_s", "attach_reply_s", "detach_s"])
def test_killed_while_the_storage_is_at_work(play: Play, delay: str):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        first = await cluster.until(cluster.running)
        setattr(cluster.array, delay, 20)
        await cluster.drain(first)
        for _ in range(3):  # each time in the middle of the work
            await asyncio.sleep(8)
            await cluster.kill(cluster.processes[0])
            cluster.processes.insert(0, cluster.run(ATTACHING))
            cluster.processes.pop()
        second = await cluster.until(lambda: cluster.running(other_than=first))
        await asyncio.sleep(5)
        await cluster.settled(second)
        assert cluster.array.holders(*cluster.array.disks) == [first, second]

    play(story)


@AFTER
def test_an_agent_killed_while_a_volume_moves_away_from_it(play: Play, after: bool):
    async def story(cluster: InProcessCluster, number: int) -> bool:
        await cluster.start()
        await cluster.stateful_set()
        first = await cluster.until(cluster.running)
        machine = cluster.machines[first]
        machine.wire.crash_at(number, after=after)
        await cluster.drain(first)
        while not machine.wire.crashed.is_set():
            if await cluster.running(other_than=first):
                return False
            await asyncio.sleep(0.05)
        await machine.agent_dies()
        machine.restart_agent()
        second = await cluster.until(lambda: cluster.running(other_than=first))
        await asyncio.sleep(5)
        await cluster.settled(second)
        return True

    at_every_request(play, story, least=5)


def test_two_leaders_at_once_do_no_harm(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        cluster.run(ATTACHING)
        cluster.run(ATTACHING)
        cluster.array.attach_s = cluster.array.detach_s = 0.3
        await cluster.stateful_set()
        here = await cluster.until(cluster.running)
        for _ in range(4):
            await cluster.drain(here)
            there = await cluster.until(lambda here=here: cluster.running(other_than=here))
            await cluster.uncordon(here)
            here = there
        await asyncio.sleep(5)
        await cluster.settled(here)

    play(story)
