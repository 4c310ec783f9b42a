"""The single steps of the handshake, on a real server. The harm that each rule prevents is
in test_counterexamples.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from mooring.controllers.attachdetach.handshake import Handshake
from mooring.kube.errors import Unreachable
from mooring.kube.objects import Node, VolumeAttachment
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.names import DETACHING, NODE_UID

Play = Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]
Patch = pytest.MonkeyPatch

VOLUME = "example.com/disk/d1"
STATUS = request("PATCH", "/nodes/n0/status")
DELETE = request("DELETE", "/volumeattachments/")


# --- what the steps do


def test_attach_writes_the_intent_with_the_nodes_uid(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        record = await stage.find()
        node = await stage.api.get(Node, "n0")
        assert record.metadata.annotations[NODE_UID] == node.uid
        assert record.spec.node_name == "n0"

    play(schedule)


def test_report_lists_the_volume_with_its_device_path(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        assert await a.handshake.report(a.record(), locked=False)
        node = await stage.api.get(Node, "n0")
        assert [(e.name, e.device_path) for e in node.status.volumes_attached] == [(VOLUME, "/dev/d1")]

    play(schedule)


LOOK = "GET /apis/storage.k8s.io/v1/volumeattachments/"


def test_report_of_what_is_not_usable_any_more_writes_nothing(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        record = await stage.attached(a)
        a.freeze()
        await stage.api.patch(VolumeAttachment, record.name, {"metadata": {"annotations": {DETACHING: "t"}}})
        await stage.n0.report(in_use=("example.com/disk/other",))  # now the cache is older than the Node
        assert not await a.handshake.report(a.record(), locked=False)
        assert await stage.n0.listed() == set()

    play(schedule)


def test_a_report_reads_nothing_if_the_cache_is_as_new_as_the_node(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        before = len(a.wire.sent)
        assert await a.handshake.report(a.record(), locked=False)
        assert [each.split()[0] for each in a.wire.sent[before:]] == ["PATCH"]

    play(schedule)


def test_a_report_looks_at_the_attachment_live_if_the_cache_is_older_than_the_node(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.n0.report(in_use=("example.com/disk/other",))
        await asyncio.sleep(0.1)
        before = len(a.wire.sent)
        assert await a.handshake.report(a.record(), locked=False)
        assert any(each.startswith(LOOK) for each in a.wire.sent[before:])

    play(schedule)


def test_a_write_that_conflicts_waits_for_the_newer_node_to_come_by_the_watch(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a, "d1")
        await stage.attached(a, "d2")
        write, before = a.wire.hold(STATUS), len(a.wire.sent)
        reporting = asyncio.create_task(a.handshake.report(a.record("d1"), locked=False))
        await write.arrived.wait()
        await stage.n0.report(in_use=("example.com/disk/other",))
        await stage.attached(b, "d3")  # the cache of VolumeAttachments is newer again
        write.release()
        assert await reporting
        assert {each.split()[0] for each in a.wire.sent[before:]} == {"PATCH"}

    play(schedule)


def test_a_report_looks_at_the_attachment_live_where_kinds_have_clocks_of_their_own(play: Play):
    """The cache of VolumeAttachments has the greater resourceVersion, and does not show the earlier mark."""

    async def schedule(stage: Any, a: Any, b: Any):
        record = await stage.attached(a)
        a.freeze()
        a.handshake.lists.versions_comparable = False
        await stage.api.patch(VolumeAttachment, record.name, {"metadata": {"annotations": {DETACHING: "t"}}})
        assert not await a.handshake.report(a.record(), locked=False)
        assert await stage.n0.listed() == set()

    play(schedule)


def test_a_report_looks_at_the_attachment_live_until_it_is_known_that_versions_can_be_compared(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        record = await stage.attached(a)
        new = Handshake(
            a.client, a.records, a.nodes, now=stage.now, random=Random(1), answers_for=lambda name: True
        )
        a.freeze()
        await stage.api.patch(VolumeAttachment, record.name, {"metadata": {"annotations": {DETACHING: "t"}}})
        assert not await new.report(a.record(), locked=False)
        assert await stage.n0.listed() == set()

    play(schedule)


def test_detach_of_an_unused_volume_ends_with_the_deletion_of_the_record(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await a.handshake.report(a.record(), locked=False)
        released = await a.handshake.detach(a.record())
        assert released.verdict.allowed
        assert await stage.n0.listed() == set()
        assert await stage.find() is None

    play(schedule)


def test_detach_of_a_volume_that_turns_out_to_be_used_is_taken_back(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await a.handshake.report(a.record(), locked=False)
        assert await stage.n0.mount()
        released = await a.handshake.detach(a.record())
        assert not released.verdict.allowed
        assert DETACHING not in (await stage.find()).metadata.annotations
        assert await a.handshake.report(a.record(), locked=False), "put back"

    play(schedule)


def test_detach_from_a_node_that_is_gone_is_taken_back(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.api.delete(Node, "n0")
        released = await a.handshake.detach(a.record())
        assert released.verdict.reason.code == "NodeGone"
        assert DETACHING not in (await stage.find()).metadata.annotations

    play(schedule)


def test_after_a_restamp_the_new_node_is_the_attachments(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.api.delete(Node, "n0")
        anew = await stage.n0.register()
        await a.handshake.restamp(a.record(), anew)
        assert (await stage.find()).metadata.annotations[NODE_UID] == anew.uid

    play(schedule)


def test_two_writes_to_the_list_of_one_node_do_not_hinder_each_other(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        for disk in ("d1", "d2", "d3"):
            await stage.attached(a, disk)
        done = await asyncio.gather(
            *(a.handshake.report(a.record(disk), locked=False) for disk in ("d1", "d2", "d3"))
        )
        assert done == [True, True, True]
        assert await stage.n0.listed() == {f"example.com/disk/{disk}" for disk in ("d1", "d2", "d3")}

    play(schedule)


# --- any single late or lost request


@pytest.mark.parametrize("kind", ["lose", "unanswered", "late"])
@pytest.mark.parametrize("at", range(4))
def test_a_detach_that_loses_any_of_its_requests_is_finished_by_another_leader(
    play: Play, kind: str, at: int
):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await a.handshake.report(a.record(), locked=False)
        if at == 1:  # the Node is read only if the cache is stale
            a.freeze()
            await stage.n0.report(in_use=("example.com/disk/other",))
        steps = [request("PATCH", "/volumeattachments/"), request("GET", "/nodes/n0"), STATUS, DELETE]
        fault = getattr(a.wire, kind)(steps[at])
        with pytest.raises(Unreachable):
            await a.handshake.detach(a.record())
        await asyncio.sleep(0.1)
        if await stage.find() is not None:
            assert (await b.handshake.detach(b.record())).verdict.allowed
        assert await stage.find() is None
        assert await stage.n0.listed() == set()
        if kind == "late":
            assert at == 1 or await fault.deliver() in (404, 409)
            assert await stage.n0.listed() == set()

    play(schedule)
