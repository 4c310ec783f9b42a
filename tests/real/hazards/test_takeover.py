"""Mooring's attach/detach controller takes over from upstream's and gives back, on the real API server; the
field case study; and two instances, one of which dies or is paused."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.real.hazards.control_plane import (
    MOORING,
    MOORING_ELECTED,
    UPSTREAM,
    ControllerProgram,
    Running,
    stage,
)
from tests.real.hazards.stage import HazardCluster
from tests.real.server import real_server

from mooring.kube.objects import Lease, VolumeAttachment

pytestmark = pytest.mark.timeout(3600)
SOAK = bool(os.environ.get("MOORING_SOAK"))
ROUNDS, MANY = (20, 500) if SOAK else (1, 60)
NODES = 5
IN_FLIGHT_S = 0.2
"""After this, what a killed process had sent has arrived."""


async def all_attachments(played: HazardCluster) -> list[VolumeAttachment]:
    return (await played.client.list(VolumeAttachment)).items


async def attachments(played: HazardCluster) -> dict[str, str]:
    """Names and uids of all that exist."""
    return {each.name: each.uid for each in await all_attachments(played)}


async def reported_on(played: HazardCluster, volumes: list[str], node: str) -> bool:
    return all([await played.reported(volume, node) for volume in volumes])


async def gone_from(played: HazardCluster, volumes: list[str]) -> bool:
    return not any([await played.attachments(volume) for volume in volumes])


async def end(played: HazardCluster, node: str, volume: str) -> None:
    """A pod ends as it should, and its kubelet unmounts."""
    await played.terminated(f"pod-{volume}")
    await played.kubelets[node].unmount(volume)
    await played.force_delete(f"pod-{volume}")


async def take_over(played: HazardCluster, running: Running, to: ControllerProgram, number: int) -> None:
    """What is attached stays untouched; what was begun is finished, in both directions; new work is done."""
    node, kept, going = (
        f"takeover-{number}",
        [f"kept-{number}-{n}" for n in range(4)],
        [f"going-{number}-{n}" for n in range(2)],
    )
    late = [f"late-{number}-{n}" for n in range(3)]
    await played.node(node)
    for volume in (*kept, *going, *late):
        await played.volume(volume)
    for volume in (*kept, *going):
        await played.running_with_volume(volume, node, f"pod-{volume}")
    before = await attachments(played)
    for volume in going:
        await end(played, node, volume)
    for volume in late:
        await played.pod(f"pod-{volume}", node, volume)
    await running.hand_over(to)
    await played.until("what was begun before is finished", lambda: gone_from(played, going), 120)
    await played.until("what was wanted before is attached", lambda: reported_on(played, late, node), 120)
    for volume in kept:
        assert {(each.name, each.uid) for each in await played.attachments(volume)} <= set(before.items())
        assert await played.reported(volume, node), f"{volume} stays reported"
    await end(played, node, kept[0])
    await played.until("the successor detaches", lambda: gone_from(played, kept[:1]), 120)
    assert not any(played.truth.harm(volume) for volume in (*kept, *going, *late))


async def test_upstream_hands_over_to_mooring_and_mooring_to_upstream(programs: Path, tmp_path: Path):
    with real_server(programs, tmp_path) as server:
        async with stage(server, programs, tmp_path, UPSTREAM) as (played, (running,)):
            for number, controller in enumerate((MOORING, UPSTREAM)):
                await take_over(played, running, controller, number)


async def test_the_case_study_a_pod_comes_back_to_its_node_while_a_failed_detach_waits(
    programs: Path, tmp_path: Path
):
    """The origin's field case: one detach fails, and the pod is made again on the same node before the next
    try. It is the deletion of the VolumeAttachment, told by the watch, that begins the attach."""
    with real_server(programs, tmp_path) as server:
        async with stage(server, programs, tmp_path, MOORING) as (played, _):
            kubelet = await played.node("node")
            await played.volume("disk")
            await played.running_with_volume("disk", "node", "pod-disk")
            played.failing_detaches["disk"] = 2
            await end(played, "node", "disk")
            await played.until("a detach has failed", lambda: failed_detach(played, "disk"))
            await played.pod("pod-again", "node", "disk")
            await kubelet.mount("disk")  # waits until the volume is reported
            await played.stays("it stays reported", lambda: played.reported("disk", "node"), 5)
            assert not played.truth.harm("disk")


async def failed_detach(played: HazardCluster, volume: str) -> bool:
    return played.failing_detaches[volume] < 2


async def leader(played: HazardCluster) -> str:
    lease = await played.client.find(Lease, "mooring-attachdetach", "kube-system")
    return (lease.spec.holder_identity or "") if lease is not None else ""


async def next_attach(played: HazardCluster) -> float:
    """Seconds until the first VolumeAttachment that the dead leader cannot have asked for."""
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(IN_FLIGHT_S)
    listed = await played.client.list(VolumeAttachment)
    async for event in played.client.watch(VolumeAttachment, resource_version=listed.resource_version):
        if event.type == "ADDED":
            break
    return asyncio.get_running_loop().time() - began


async def in_the_middle_of_many(played: HazardCluster, number: int, act: str, pair: list[Running]) -> float:
    """The leader is killed, or paused beyond its lease, when some of many volumes are attached. Seconds from
    then until the next attach."""
    nodes = [f"many-{number}-{n}" for n in range(NODES)]
    volumes = [f"many-{number}-{n:03}" for n in range(MANY)]
    for node in nodes:
        await played.node(node)
    await played.volumes(volumes)
    first = await played.until("an instance leads", lambda: leader(played))
    leading = next(each for each in pair if each.says(first))
    waited: asyncio.Task[float] | None = None
    for index, volume in enumerate(volumes):
        await played.pod(f"pod-{volume}", nodes[index % NODES], volume)
        if index == MANY // 2:
            leading.send(signal.SIGKILL if act == "killed" else signal.SIGSTOP)
            waited = asyncio.create_task(next_attach(played))
    await played.until("another leads", lambda: another_leads(played, first), 60)
    if act == "paused":
        leading.send(signal.SIGCONT)
    for index, volume in enumerate(volumes):
        node = nodes[index % NODES]
        await played.until(f"{volume} is reported", lambda v=volume, n=node: played.reported(v, n), 120)
        assert played.truth.attached[volume] == {node}
    records = Counter(each.spec.source.persistent_volume_name for each in await all_attachments(played))
    assert {records[volume] for volume in volumes} == {1}
    for each in pair:
        if each.ended():
            await each.start()
    assert waited is not None
    return await waited


async def another_leads(played: HazardCluster, first: str) -> bool:
    return await leader(played) not in ("", first)


@pytest.mark.soak
@pytest.mark.parametrize("act", ["killed", "paused"])
async def test_another_instance_goes_on_when_the_leader_is(
    programs: Path, tmp_path: Path, act: str, capsys: pytest.CaptureFixture[str]
):
    with real_server(programs, tmp_path) as server:
        async with stage(server, programs, tmp_path, MOORING_ELECTED, MOORING_ELECTED) as (played, pair):
            for number in range(ROUNDS):
                waited = await in_the_middle_of_many(played, number, act, pair)
                with capsys.disabled():
                    print(
                        f"\nround {number}: {act}, the next attach {waited:.1f} s later", end="", flush=True
                    )
