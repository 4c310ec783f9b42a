"""What the API server refuses of an attach or a detach is told where users look, in its words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from csi_cluster import CsiCluster, player, record_name
from refusals import WHY, refuse_on

from mooring.kube.objects import Event, Node, Pod
from mooring.simulation.parts.faulty_transport import request

Play = Callable[..., Any]
RECORDS = "volumeattachments"


@pytest.fixture
def play(run: Callable[[Any], Any], now: Callable[[], Any]) -> Play:
    return player(run, now)


async def told(cluster: CsiCluster, why: str = WHY) -> set[tuple[str, str]]:
    """Of what events say why, and their reasons."""
    events = (await cluster.api.list(Event)).items
    return {(each.involved_object.name, each.reason) for each in events if why in each.message}


async def attached(cluster: CsiCluster) -> Any:
    """Volume v, attached to n0 for pod p, which uses it. The controller's wire."""
    _, wire = cluster.controller()
    await cluster.volume("v")
    await cluster.pod("p", "v", "n0")

    async def listed() -> bool:
        return "v" in await cluster.listed("n0")

    await cluster.until(listed)
    await cluster.in_use("n0", "v")
    await cluster.api.patch(Pod, "p", {"status": {"phase": "Running"}}, "default", subresource="status")
    await asyncio.sleep(1)
    return wire


BROKEN = 'Internal error occurred: failed calling webhook "policy.example.com": connection refused'


@pytest.mark.parametrize(("status", "why"), [(403, WHY), (500, BROKEN)])
def test_a_pod_says_that_its_volume_may_not_be_attached(play: Play, status: int, why: str):
    """A policy denies the VolumeAttachment, or the webhook that is to say so cannot be called."""

    async def story(cluster: CsiCluster):
        _, wire = cluster.controller()
        refuse_on(wire, request("POST", RECORDS), status, why)
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        await asyncio.sleep(10)
        assert await told(cluster, why) == {("p", "FailedAttachVolume")}

    play(story)


def test_a_refusal_that_lasts_is_told_again_when_its_event_has_expired(play: Play):
    async def story(cluster: CsiCluster):
        _, wire = cluster.controller()
        refuse_on(wire, request("POST", RECORDS))
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        await asyncio.sleep(10)
        for each in (await cluster.api.list(Event)).items:
            await cluster.api.delete(Event, each.name, each.namespace)
        await asyncio.sleep(600)
        assert await told(cluster) == {("p", "FailedAttachVolume")}

    play(story)


def test_a_node_says_that_its_volume_may_not_be_detached(play: Play):
    async def story(cluster: CsiCluster):
        wire = await attached(cluster)
        refuse_on(wire, request("PATCH", f"{RECORDS}/{record_name('v', 'n0')}"))
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        await asyncio.sleep(10)
        assert await told(cluster) == {("n0", "FailedDetachVolume")}

    play(story)


def test_a_pod_that_runs_is_not_told_that_its_record_may_not_be_stamped_anew(play: Play):
    async def story(cluster: CsiCluster):
        wire = await attached(cluster)
        refusals = refuse_on(wire, request("PATCH", RECORDS))
        await cluster.api.delete(Node, "n0")
        await cluster.node("n0", **{"mooring.dev/reconstructed": "b1"})
        await cluster.in_use("n0", "v")
        await asyncio.sleep(10)
        assert refusals.refused
        assert await told(cluster) == set()

    play(story)
