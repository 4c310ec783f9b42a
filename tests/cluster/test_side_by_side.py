"""Two clusters on one machine, started at the same moment: nothing of one meets the other, and `down` of one
leaves the other whole."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from standing_cluster import standing
from tests.cluster.test_up import running

from mooring.cluster.demo.scene import examples
from mooring.cluster.holding import settings
from mooring.cluster.stage import Stage
from mooring.kube.objects import Pod
from mooring.node.bridge import claims, label

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]

NODES = ("node-1", "node-2")
FLAGS = ("--nodes", "2", "--node-monitor-grace-period", "20")
"""Both look for the usual port."""


@pytest.fixture
async def both() -> AsyncIterator[tuple[Stage, Stage]]:
    """Two clusters that were started at the same moment, each with a pod that writes into a volume."""
    directories = [Path(tempfile.mkdtemp(prefix="mooring-test-")) for _ in range(2)]
    async with AsyncExitStack() as held:
        for directory in directories:
            held.callback(shutil.rmtree, directory)
        stages = [standing(directory, *FLAGS, nodes=2, patience=120) for directory in directories]
        first, second = await asyncio.gather(*(held.enter_async_context(stage) for stage in stages))
        await asyncio.gather(*(recording(stage) for stage in (first, second)))
        yield first, second


async def recording(stage: Stage) -> None:
    await stage.apply(examples() / "statefulset.yaml")
    await stage.until("the pod runs", lambda: running(stage), patience=120)


async def has(stage: Stage) -> Mapping[str, set[str]]:
    """What a cluster has of this machine, by kind."""
    pods = (await stage.client.list(Pod, "default")).items
    labels = {label(stage.layout.node(node)) for node in NODES}
    return {
        "the port of its API server": {str(settings(stage.layout)["port"])},
        "nodes' parts of the bridge": {str(each.first) for each in claims() if each.label in labels},
        "addresses of pods": {pod.status.pod_ip for pod in pods},
        "loop devices": loop_devices(stage),
    }


def loop_devices(stage: Stage) -> set[str]:
    root = str(stage.layout.root)
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return {file.parts[3] for file in files if file.read_text().startswith(root)}


async def test_nothing_of_one_meets_the_other(both: tuple[Stage, Stage]):
    first, second = [await has(stage) for stage in both]
    for kind, held in first.items():
        assert held, kind
        assert second[kind], kind
        assert not held & second[kind], kind
    uids = [pod.metadata.uid for stage in both if (pod := await running(stage)) is not None]
    assert len(set(uids)) == 2


async def test_down_of_one_leaves_the_other_whole(both: tuple[Stage, Stage]):
    gone, stays = both
    before, pod = await has(stays), await running(stays)
    assert pod is not None
    status, answer = await gone.down()
    assert status == 0, answer
    assert gone.leftovers() == []
    assert await has(stays) == before
    assert await stays.ready_nodes(2)
    assert await running(stays) == pod, "it was neither restarted nor moved"
    size = os.stat(records(stays, pod)).st_size

    async def has_grown() -> bool:
        return os.stat(records(stays, pod)).st_size > size

    await stays.until("the pod writes on", has_grown)


def records(stage: Stage, pod: Pod) -> Path:
    (volume,) = stage.array.attachments()
    mount = stage.inside(pod.spec.node_name, volume)
    assert mount is not None
    return mount / "records"
