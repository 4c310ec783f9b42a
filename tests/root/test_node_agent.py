"""A node agent as a process of its own, real pods on a real disk. The test plays the controllers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_process import NODE, VOLUME, AgentProcess, agent_world

from mooring.kube.objects import ConfigMap, Node, Pod, VolumeAttachment
from mooring.mounts.commands import run
from mooring.volumes.names import volume_attachment_name
from mooring.volumes.plugins.disk_source import PLUGIN_NAME

pytestmark = pytest.mark.root


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with agent_world(tmp_path) as world:
        yield world


async def test_a_pod_writes_to_its_disk_and_its_successor_reads_it(world: AgentProcess) -> None:
    await world.start()
    first = await world.create_pod()
    await world.attach()
    await world.until(world.running)
    await world.until(lambda: world.log(first) == ["web-0 on web-0"])
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(world.unused)
    assert world.mounts() == []
    world.array.detach("d", NODE)
    world.array.attach("d", NODE)
    second = await world.create_pod(name="web-1")
    await world.until(lambda: world.log(second) == ["web-0 on web-0", "web-1 on web-1"])


async def test_a_killed_agent_disturbs_nothing_and_the_next_one_takes_over(world: AgentProcess) -> None:
    await world.start()
    pod = await world.create_pod()
    await world.attach()
    await world.until(world.running)
    mounts, supervisors = world.mounts(), world.supervisors()
    assert len(mounts) == 2
    await world.stop(signal.SIGKILL)
    await world.start()
    await asyncio.sleep(0.5)
    assert world.mounts() == mounts
    await world.until(lambda: world.supervisors() == supervisors)
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(world.unused)
    assert world.mounts() == []
    await world.until(lambda: not (world.node_root / "pods" / pod.uid).exists())


async def test_a_pod_that_went_while_no_agent_was_there_is_cleaned_up(world: AgentProcess) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    await world.stop(signal.SIGKILL)
    await world.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
    assert (await world.api.get(Node, NODE)).status.volumes_in_use == (VOLUME,)
    await world.start()
    await world.until(world.unused)
    await world.until(lambda: not world.supervisors())
    assert world.mounts() == []


async def test_an_attachment_that_is_taken_away_ends_the_pod(world: AgentProcess) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    await world.api.delete(VolumeAttachment, volume_attachment_name(PLUGIN_NAME, "d", NODE))
    await world.report([])
    await world.until(lambda: not world.mounts())
    assert world.supervisors() == []
    assert await world.event("VolumeLost")


async def test_a_foreign_file_system_is_refused_and_not_touched(world: AgentProcess) -> None:
    device = world.array.attach("d", NODE)
    await run("mkfs.ext4", "-q", "-L", "precious", device)
    await world.start()
    flex = {"driver": PLUGIN_NAME, "fsType": "xfs", "options": {"disk": "d"}}
    await world.create_pod(volumes=[{"name": "data", "flexVolume": flex}])
    await world.attach()
    event = await world.until(lambda: world.event("FailedMount"))
    assert "xfs" in event
    assert "precious" in (await run("blkid", "-p", device)).output
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(world.unused)


async def test_the_node_shuts_down_when_it_is_told_so(world: AgentProcess) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    assert await world.stop(signal.SIGUSR1) == 0
    node = await world.api.get(Node, NODE)
    assert node.ready == "False"
    assert node.status.volumes_in_use == ()
    assert world.mounts() == []
    assert world.supervisors() == []


async def test_an_agent_that_is_stopped_leaves_its_pods_running(world: AgentProcess) -> None:
    await world.start()
    await world.create_pod()
    await world.attach()
    await world.until(world.running)
    assert await world.stop(signal.SIGTERM) == 0
    assert len(world.supervisors()) == 1
    assert len(world.mounts()) == 2


async def test_a_config_map_and_an_empty_dir_are_there_and_follow_changes(world: AgentProcess) -> None:
    await world.start()
    await world.api.create(ConfigMap, {"metadata": {"name": "settings"}, "data": {"mode": "slow"}}, "default")
    pod = await world.create_pod(
        "echo x > /scratch/file; while :; do cat /conf/mode; echo; sleep 0.1; done",
        volumes=[{"name": "conf", "configMap": {"name": "settings"}}, {"name": "scratch", "emptyDir": {}}],
    )
    await world.until(lambda: "slow" in world.log(pod))
    await world.api.patch(ConfigMap, "settings", {"data": {"mode": "fast"}}, "default")
    await world.until(lambda: "fast" in world.log(pod))
    await world.api.delete(Pod, "web-0", "default")
    await world.until(world.gone)
    await world.until(lambda: not (world.node_root / "pods" / pod.uid).exists())


async def test_a_container_cannot_write_into_a_config_map(world: AgentProcess) -> None:
    await world.start()
    await world.api.create(ConfigMap, {"metadata": {"name": "settings"}, "data": {"mode": "slow"}}, "default")
    pod = await world.create_pod(
        "touch /conf/x 2>&1; echo looked; exec sleep 1000",
        volumes=[{"name": "conf", "configMap": {"name": "settings"}}],
    )
    await world.until(lambda: "looked" in world.log(pod))
    assert any("Read-only file system" in line for line in world.log(pod))


async def test_a_second_agent_on_the_same_directory_is_refused(world: AgentProcess) -> None:
    await world.start()
    first = world.agent
    await world.start()
    assert world.agent is not None
    assert await world.agent.wait() != 0
    world.agent = first
