"""A drill fences a node for real and brings it back; what does not work is found then, and said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fencing_stage import FencingStage
from played_mechanism import Manner
from virtual_server import not_stuck, started

from mooring.cluster.drill import LEASES, drill
from mooring.cluster.layout import ClusterError
from mooring.kube.objects import Lease, Namespace, Node, Pod
from mooring.kube.times import format_micro_time


@pytest.fixture
def play(run: Any, now: Any) -> Any:
    """Plays a story on a stage with nodes a and b, a mechanism and a policy."""

    def play_story(story: Any) -> Any:
        async def on_server() -> Any:
            stage = FencingStage(await started(now), now)
            await stage.install()
            for name in ("a", "b"):
                await stage.node(name)
            await stage.mechanism()
            await stage.policy("bmc")
            async with stage.running(), machine(stage, "a"):
                await asyncio.sleep(5)
                return await story(stage)

        return run(not_stuck(on_server()))

    return play_story


@asynccontextmanager
async def machine(stage: Any, name: str) -> AsyncIterator[None]:
    """The agent of a node: it renews its Lease while its machine is on, and reports a new boot when it was
    off."""
    if await stage.api.find(Namespace, LEASES) is None:
        await stage.api.create(Namespace, {"metadata": {"name": LEASES}})
    spec = {"holderIdentity": name, "leaseDurationSeconds": 8, "renewTime": format_micro_time(stage.now())}
    await stage.api.create(Lease, {"metadata": {"name": name}, "spec": spec}, LEASES)

    async def live() -> None:
        boot, was_off = 1, False
        while True:
            if name in stage.machines.off:
                was_off = True
                await asyncio.sleep(1)
                continue
            if was_off:
                boot, was_off = boot + 1, False
                await stage.report(name, f"boot-{boot}")
            renewal = {"spec": {"renewTime": format_micro_time(stage.now())}}
            await stage.api.patch(Lease, name, renewal, LEASES)
            for pod in (await stage.api.list(Pod, field_selector=f"spec.nodeName={name}")).items:
                if pod.deleting:
                    await stage.api.delete(Pod, pod.name, pod.namespace, grace_period_seconds=0)
            await asyncio.sleep(2)

    working = asyncio.create_task(live())
    try:
        yield
    finally:
        working.cancel()


async def drilled(stage: Any, name: str = "a") -> list[str]:
    said: list[str] = []
    await drill(stage.api, name, by="me", now=stage.now, say=said.append, patience=60)
    return said


def test_a_drill_moves_the_pods_cuts_the_node_off_and_brings_it_back(play: Any):
    async def story(stage: Any):
        body = {
            "metadata": {"name": "p"},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
        }
        await stage.api.create(Pod, body, "default")
        said = await drilled(stage)
        assert said[-1] == "5. node a is ready in a new boot, and takes pods again"
        assert await stage.api.find(Pod, "p", "default") is None
        node = await stage.api.get(Node, "a")
        assert node.status.node_info.boot_id == "boot-2"
        assert not node.spec.unschedulable
        assert [order for order, _ in stage.machines.orders] == ["a"]

    play(story)


def test_a_mechanism_that_says_so_and_cuts_nothing_off_is_found_out(play: Any):
    async def story(stage: Any):
        stage.bmc.manner = Manner.LIES
        with pytest.raises(ClusterError, match="has renewed its Lease after it was said to be cut off"):
            await drilled(stage)
        assert (await stage.api.get(Node, "a")).spec.unschedulable

    play(story)


def test_a_mechanism_that_does_not_answer_ends_the_drill_with_how_to_go_on(play: Any):
    async def story(stage: Any):
        stage.bmc.manner = Manner.REFUSES
        with pytest.raises(ClusterError, match="mooring fence release a"):
            await drilled(stage)

    play(story)


@pytest.mark.parametrize("state", ["Unknown", "False", "absent", "control plane"])
def test_a_drill_is_for_a_worker_that_is_well(play: Any, state: str):
    async def story(stage: Any):
        if state == "control plane":
            label = {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}
            await stage.api.patch(Node, "b", label)
        elif state != "absent":
            await stage.report("b", ready=state, by_agent=False)
        with pytest.raises(ClusterError, match="Nothing was changed"):
            await drilled(stage, "c" if state == "absent" else "b")

    play(story)
