"""A node that the API server does not hear: its peers' words pass over a real network, and decide whether a
fence of it begins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from standing_cluster import standing
from tests.cluster.test_links import is_ready, order

from mooring.cluster.stage import Stage
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FencePolicy, NodeFence
from mooring.volumes.peers import DOOR, QUESTIONS

pytestmark = [pytest.mark.root, pytest.mark.cluster]

NODE = "node-1"
FLAGS = ("--nodes", "3", "--port", "0", "--node-monitor-grace-period", "8", "--fencing")
PEERS = {"peers": {"required": 2, "expiresSeconds": 12}, "worth": {"onlyExclusive": False}}


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    async with standing(data_dir, *FLAGS, nodes=3) as stage:
        await stage.client.patch(FencePolicy, "default", {"spec": PEERS})
        yield stage


async def fence(stage: Stage) -> NodeFence | None:
    found = [each for each in (await stage.client.list(NodeFence)).items if each.spec.node_name == NODE]
    return found[-1] if found else None


async def test_a_node_that_its_peers_hear_is_not_fenced_and_one_that_none_hears_is(stage: Stage) -> None:
    nodes = (await stage.client.list(Node)).items
    assert len({each.metadata.annotations[DOOR] for each in nodes}) == 3

    async def vetoed() -> bool:
        held = await fence(stage)
        return held is not None and held.status.reason == "HeardByPeers"

    await order(stage, "cut", NODE, "--from", "api")
    await stage.until("node-1 is Unknown", is_ready(stage, NODE, "Unknown"))
    await stage.until("its peers hear it", vetoed)
    held = await fence(stage)
    assert held is not None
    assert "does not hear it" in held.status.message
    assert not held.status.attempts
    _, said = await stage.command("fence", "list")
    assert "answers its peers" in said, said

    async def fenced() -> bool:
        held = await fence(stage)
        return held is not None and bool(held.status.released_at)

    await order(stage, "cut", NODE, "--from", "all")
    await stage.until("no peer hears it, and it is fenced", fenced)

    async def nothing_asked() -> bool:
        return not any(
            QUESTIONS in each.metadata.annotations for each in (await stage.client.list(Node)).items
        )

    await stage.until("nothing is asked any more", nothing_asked)
