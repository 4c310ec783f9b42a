"""What the controller writes and reads in the usual course, what it tries again, and what it forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from csi_cluster import CsiCluster, player, record_name, unique_name

from mooring.controllers.attachdetach.controller import AttachDetachOptions
from mooring.kube.objects import Node, Pod, VolumeAttachment
from mooring.simulation.checks.memory import remembered
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.names import DETACHING

Play = Callable[..., Any]
RECORDS = "/apis/storage.k8s.io/v1/volumeattachments"


@pytest.fixture
def play(run: Callable[[Any], Any], now: Callable[[], Any]) -> Play:
    return player(run, now)


async def attached(cluster: CsiCluster, **options: Any) -> Any:
    """Volume v, attached to n0 for pod p, which uses it."""
    controller, wire = cluster.controller(**options)
    await cluster.volume("v")
    await cluster.pod("p", "v", "n0")
    await cluster.until(lambda: has(cluster, "n0"))
    await cluster.in_use("n0", "v")
    await asyncio.sleep(1)
    return controller, wire


async def has(cluster: CsiCluster, node: str) -> bool:
    return "v" in await cluster.listed(node)


async def nowhere(cluster: CsiCluster) -> bool:
    return not await cluster.on("v")


def writes(wire: Any) -> list[str]:
    return [each.partition("?")[0] for each in wire.sent if not each.startswith("GET")]


def test_a_volume_comes_and_goes_with_five_writes(play: Play):
    """Beside events. No VolumeAttachment is read, since the cache is known to be as new as the Node."""

    async def story(cluster: CsiCluster):
        _, wire = await attached(cluster)
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        await cluster.until(lambda: nowhere(cluster))
        assert [each for each in writes(wire) if "events" not in each] == [
            f"POST {RECORDS}",
            "PATCH /api/v1/nodes/n0/status",
            f"PATCH {RECORDS}/{record_name('v', 'n0')}",
            "PATCH /api/v1/nodes/n0/status",
            f"DELETE {RECORDS}/{record_name('v', 'n0')}",
        ]
        assert not [each for each in wire.sent if each.startswith(f"GET {RECORDS}/")]

    play(story)


@pytest.mark.parametrize("held", [True, False])
def test_nothing_is_remembered_of_a_record_that_is_gone(play: Play, held: bool):
    """Held by the attacher's finalizer, and gone with the answer to its deletion."""

    async def story(cluster: CsiCluster):
        if not held:
            cluster.attacher.cancel()
        controller, _ = cluster.controller()
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        await asyncio.sleep(1)
        (record,) = await cluster.records()
        assert bool(record.metadata.finalizers) is held
        await cluster.end_pod("p")
        await cluster.until(lambda: nowhere(cluster))
        await asyncio.sleep(1)
        assert [*remembered(controller, {record.uid})] == []

    play(story)


@pytest.mark.parametrize("lost", ["attach", "detach"])
def test_what_could_not_be_written_is_tried_again(play: Play, lost: str):
    """Nothing has changed by which it would be looked at again."""

    async def story(cluster: CsiCluster):
        _, wire = cluster.controller()
        if lost == "attach":
            wire.lose(request("POST", "volumeattachments"))
        else:
            wire.lose(request("PATCH", "volumeattachments", f'"{DETACHING}":"'))
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        await cluster.until(lambda: has(cluster, "n0"))
        await cluster.end_pod("p")
        await cluster.until(lambda: nowhere(cluster))

    play(story)


def test_a_detach_that_could_not_be_taken_back_is_taken_back_later(play: Play):
    async def story(cluster: CsiCluster):
        _, wire = await attached(cluster)
        wire.lose(request("PATCH", "volumeattachments", f'"{DETACHING}":null'))
        mark = {"metadata": {"annotations": {DETACHING: "another's"}}}
        await cluster.api.patch(VolumeAttachment, record_name("v", "n0"), mark)

        async def unmarked() -> bool:
            (record,) = await cluster.records()
            return DETACHING not in record.metadata.annotations

        await cluster.until(unmarked)

    play(story)


def test_the_sweep_is_told_of_each_volume_that_is_wanted_or_attached(play: Play):
    async def story(cluster: CsiCluster):
        told: list[tuple[str, Any]] = []
        options = AttachDetachOptions(swept=lambda volume, missed: told.append((volume, missed)))
        controller, _ = await attached(cluster, options=options)
        await cluster.volume("ended")
        await cluster.pod("q", "ended", "n1")
        await cluster.api.patch(Pod, "q", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        await cluster.volume("w")
        await cluster.upstreams_record("w", "n1")
        await cluster.in_use("n1", "w")
        await asyncio.sleep(1)
        assert controller.volumes() == {unique_name("v"), unique_name("w")}
        await asyncio.sleep(300)
        assert told == [(unique_name("v"), None), (unique_name("w"), None)]

    play(story)


def test_what_is_to_be_done_and_waits_its_turn_was_not_missed(play: Play):
    async def story(cluster: CsiCluster):
        controller, _ = await attached(cluster)
        controller.task.cancel()
        await asyncio.sleep(0)
        controller.cache(Node).accept(
            await cluster.api.patch(Node, "n0", {"status": {"volumesAttached": []}}, subresource="status")
        )
        assert unique_name("v") in controller.queue
        assert controller.missed(unique_name("v")) is None
        controller.queue.done(await controller.queue.get())
        assert controller.missed(unique_name("v")) is not None

    play(story)


def test_what_is_as_it_should_be_is_not_looked_at_again(play: Play):
    """Neither while pods use the volume, nor while a node has yet to unmount it: a change will tell."""

    async def story(cluster: CsiCluster):
        controller, _ = await attached(cluster)
        await asyncio.sleep(10)
        assert unique_name("v") not in controller.queue
        await cluster.end_pod("p")
        await asyncio.sleep(10)
        assert unique_name("v") not in controller.queue
        assert await cluster.on("v") == ["n0"]

    play(story)
