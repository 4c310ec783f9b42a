"""Nodes that are reset by their own watchdog: none orders it, and what they had moves only when it has
happened.

The supervisor plays the hardware, outside the machines' kernels.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standing_cluster import standing
from tests.machines.machines import NODE, back_after, boot_of, inside, order
from tests.machines.pods import pod, running, told

from mooring.cluster.stage import Stage
from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.kube.objects.fencing import FencePolicy, NodeFence
from mooring.kube.times import parse_time

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
soak = pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="minutes: `make soak` plays them")

OTHER = "node-2"
WRITES = """
trap 'exit 0' TERM
touch /data/records
echo "found $(tail -n 1 /data/records)"
while true; do
  echo "$(date +%s.%N) $(hostname)" >> /data/records
  sync -d /data/records
  sleep 0.1
done
"""
AGENT = f"pgrep -f 'agent .*--name {NODE}' | head -n 1"


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    """Two machines with watchdogs and one of namespaces, which has none; there is no other mechanism."""
    flags = (
        "--machines",
        "uml=2,namespace=1",
        "--self-fence",
        "--port",
        "0",
        "--node-monitor-grace-period",
        "8",
    )
    async with standing(data_dir, *flags, nodes=3) as stage:
        told_of = {"detectors": [{"type": "Ready"}], "ladder": [{"mechanism": "host-agent"}]}
        await stage.client.patch(FencePolicy, "default", {"spec": told_of})
        await stage.until("its watchdog is announced", lambda: armed(stage, NODE))
        yield stage


async def tried(stage: Stage) -> dict[str, dict[str, Any]]:
    """What `mooring fence test` says of each node."""
    _, answer = await stage.command("fence", "test", "--mechanism", "host-agent", "-o", "json")
    return {each["node"]: each for each in json.loads(answer)}


async def armed(stage: Stage, node: str) -> bool:
    return (await tried(stage))[node]["state"] == "Open"


async def writing(stage: Stage) -> Pod:
    """A pod on the first node that writes to its volume all the time."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": "data"}, "spec": spec}, "default")
    await pod(stage, "one", NODE, WRITES, data="data")
    await running(stage, "one")
    return await stage.client.get(Pod, "one", "default")


async def records(stage: Stage) -> list[str]:
    """What the pod of the first node has written, as its machine shows it."""
    path = f"{stage.layout.node(NODE)}/pods/*/volumes/*/*/records"
    return (await inside(stage, f"cat {path}")).splitlines()


async def goes_on_writing(stage: Stage) -> None:
    before = len(await records(stage))

    async def more() -> bool:
        return len(await records(stage)) > before

    await stage.until("it goes on writing", more)


async def moved(stage: Stage) -> tuple[float, NodeFence]:
    """Waits until the second pod has the volume: when the last record of the first one was written, and the
    fence."""
    await stage.client.delete(Pod, "one", "default")
    await pod(stage, "two", OTHER, WRITES, data="data")
    await told(stage, "two", "Multi-Attach")
    await running(stage, "two")
    live = await stage.client.get(Pod, "two", "default")

    async def found() -> str:
        text = await stage.logs(OTHER, live.uid, "main") or ""
        return next((each for each in text.splitlines() if "found " in each), "")

    line: str = await stage.until("it has found the records", found)
    fences = (await stage.client.list(NodeFence)).items
    (fence,) = [each for each in fences if each.spec.node_name == NODE]
    assert line.endswith(" one"), line
    return float(line.split("found ", maxsplit=1)[1].split(maxsplit=1)[0]), fence


def given_at(fence: NodeFence) -> datetime:
    """When the evidence was given, by the attempt that proves it."""
    (proof,) = [each for each in fence.status.attempts if each.token == fence.status.proof]
    assert (proof.mechanism, proof.scope, proof.reason) == ("host-agent", "Power", "SelfReset")
    assert proof.answered_at is not None
    return parse_time(proof.answered_at)


async def ended_before_its_evidence(stage: Stage, boot: str) -> None:
    """The volume moves; the first node's last write is older than the evidence, and its boot is over."""
    last, fence = await moved(stage)
    assert datetime.fromtimestamp(last, UTC) < given_at(fence)
    assert fence.status.target is not None
    assert fence.status.target.boot_id == boot
    assert (stage.layout.node(NODE) / "boot-id").read_text() != boot, "the supervisor has booted it anew"


async def test_which_nodes_have_a_watchdog_is_said_without_harm(stage: Stage) -> None:
    said = await tried(stage)
    assert said[NODE]["state"] == said[OTHER]["state"] == "Open", said
    assert "is reset by the machine's supervisor" in said[NODE]["message"]
    assert said["node-3"]["state"] == "Unknown"
    assert "no watchdog that counts" in said["node-3"]["message"]
    # This kernel does not tell what its own watchdog is: it is refused, and not even opened.
    await inside(stage, "modprobe softdog soft_margin=3")
    tries = (
        "import asyncio, pathlib; from mooring.node.self_fence.which import watchdog_at; "
        "asyncio.run(watchdog_at(pathlib.Path('/dev/watchdog1')).arm(5))"
    )
    status, answer = await stage.run_in(NODE, f'{sys.executable} -c "{tries}" 2>&1')
    assert status == 1
    assert "WatchdogRefused" in answer, answer
    await asyncio.sleep(4)
    assert await armed(stage, NODE), "what is not opened resets nothing"


async def test_a_node_that_is_cut_off_and_whose_agent_hangs_is_reset_while_it_writes(stage: Stage) -> None:
    await writing(stage)
    boot = await boot_of(stage)
    await order(stage, "cut", NODE, "--from", "api")
    await inside(stage, f"kill -STOP $({AGENT})")
    await goes_on_writing(stage)
    await ended_before_its_evidence(stage, boot)
    await order(stage, "heal", NODE)
    await back_after(stage, boot)

    async def over() -> bool:
        (fence,) = [
            each for each in (await stage.client.list(NodeFence)).items if each.spec.node_name == NODE
        ]
        return fence.status.phase == "Unfenced"

    await stage.until("the fence is over", over)


async def test_a_machine_that_is_paused_is_reset(stage: Stage) -> None:
    boot = await boot_of(stage)
    await order(stage, "freeze", NODE)
    await back_after(stage, boot)
    await stage.until("its watchdog is announced anew", lambda: armed(stage, NODE))


@soak
async def test_a_node_that_is_cut_off_ends_its_pods_before_it_is_reset(stage: Stage) -> None:
    await writing(stage)
    boot = await boot_of(stage)
    await order(stage, "cut", NODE, "--from", "api")
    await goes_on_writing(stage)
    await ended_before_its_evidence(stage, boot)


@soak
async def test_a_node_whose_agent_is_killed_behind_a_partition_is_reset(stage: Stage) -> None:
    await writing(stage)
    boot = await boot_of(stage)
    await order(stage, "cut", NODE, "--from", "api")
    await inside(stage, f"kill -9 $({AGENT})")
    await goes_on_writing(stage)
    await ended_before_its_evidence(stage, boot)


@soak
async def test_a_node_that_answers_again_in_time_keeps_its_pods(data_dir: Path) -> None:
    """It misses a renewal or two of those that the usual Lease has."""
    flags = ("--machines", "uml=1", "--self-fence", "--port", "0")
    async with standing(data_dir, *flags, nodes=1) as stage:
        await stage.until("its watchdog is announced", lambda: armed(stage, NODE))
        one = await writing(stage)
        boot = await boot_of(stage)
        await order(stage, "cut", NODE, "--from", "api")
        await asyncio.sleep(12)
        await order(stage, "heal", NODE)
        await asyncio.sleep(60)
        assert await boot_of(stage) == boot
        live = await stage.client.get(Pod, "one", "default")
        assert (live.uid, live.status.phase) == (one.uid, "Running")


@soak
async def test_an_agent_that_is_killed_and_started_again_goes_on_feeding(stage: Stage) -> None:
    boot = await boot_of(stage)
    await inside(stage, f"kill -9 $({AGENT})")
    await asyncio.sleep(30)
    assert await boot_of(stage) == boot
    assert await armed(stage, NODE)
