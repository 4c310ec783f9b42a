"""What a write to a Node's list reads before it, and what it leaves in the caches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mooring.kube.objects import Node, VolumeAttachment
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.names import DETACHING

Play = Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]

STATUS = request("PATCH", "/nodes/n0/status")
WRITE = "PATCH /api/v1/nodes/n0/status"
NODE = "GET /api/v1/nodes/n0"


async def sent(leader: Any, work: Any) -> list[str]:
    """What is asked of the API server meanwhile; of VolumeAttachments no more than that they are read."""
    begun = len(leader.wire.sent)
    await work
    found = [each.partition("?")[0] for each in leader.wire.sent[begun:]]
    return ["a look" if "volumeattachments" in each else each for each in found]


def test_a_report_on_a_stale_node_reads_it_live_after_one_refusal(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        a.freeze()
        await stage.n0.report(in_use=("example.com/disk/other",))
        report = a.handshake.report(a.record(), locked=False)
        assert await sent(a, report) == [WRITE, NODE, "a look", WRITE]
        assert await stage.n0.listed() == {"example.com/disk/d1"}

    play(schedule)


@pytest.mark.parametrize(("after_s", "reads"), [(0.02, []), (0.05, [NODE])])
def test_after_a_refusal_a_newer_node_is_given_a_moment_to_come_by_the_watch(
    play: Play, after_s: float, reads: list[str]
):
    """And no longer than a read takes."""

    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        a.freeze()
        await stage.n0.report(in_use=("example.com/disk/other",))

        async def watch() -> None:
            await asyncio.sleep(after_s)
            a.nodes.accept(await stage.api.get(Node, "n0"))

        both = asyncio.gather(a.handshake.report(a.record(), locked=False), watch())
        assert await sent(a, both) == [WRITE, *reads, "a look", WRITE]

    play(schedule)


def test_a_write_is_in_the_cache_at_once(play: Play):
    """The next one is not refused."""

    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a, "d1")
        await stage.attached(a, "d2")
        a.freeze()
        assert await sent(a, a.handshake.report(a.record("d1"), locked=False)) == [WRITE]
        found = await sent(a, a.handshake.report(a.record("d2"), locked=False))
        assert [each for each in found if each != "a look"] == [WRITE]

    play(schedule)


def test_what_a_look_has_shown_is_in_the_cache_at_once(play: Play):
    """So it is not decided again on what it has shown not to be so."""

    async def schedule(stage: Any, a: Any, b: Any):
        record = await stage.attached(a)
        a.freeze()
        await stage.api.patch(VolumeAttachment, record.name, {"metadata": {"annotations": {DETACHING: "t"}}})
        await stage.n0.report(in_use=("example.com/disk/other",))
        assert not await a.handshake.report(a.record(), locked=False)
        assert DETACHING in a.record().metadata.annotations

    play(schedule)


def test_what_another_machine_had_under_the_nodes_name_leaves_the_list_with_the_next_write(play: Play):
    """The machine that has the name now has not got the volume."""

    async def schedule(stage: Any, a: Any, b: Any):
        for disk, uuid in (("d1", "6a2e9c1e-0000-4000-8000-000000000001"), ("d2", "another")):
            status = {"status": {"nodeInfo": {"systemUUID": uuid}}}
            await stage.api.patch(Node, "n0", status, subresource="status")
            await asyncio.sleep(0.1)
            await stage.attached(a, disk)
            assert await a.handshake.report(a.record(disk), locked=False)
        assert await stage.n0.listed() == {"example.com/disk/d2"}

    play(schedule)


@pytest.mark.parametrize(("changes", "reads"), [(3, True), (4, False)])
def test_in_a_burst_the_cache_is_given_a_moment_to_become_as_new_as_the_node(
    play: Play, changes: int, reads: bool
):
    """One event of a watch costs less than as many reads. A few changes do not wait for it."""

    async def schedule(stage: Any, a: Any, b: Any):
        disks = [f"d{number}" for number in range(changes)]
        for disk in disks:
            await stage.attached(a, disk)
        await stage.n0.report(in_use=("example.com/disk/other",))
        await asyncio.sleep(0.1)

        async def watch() -> None:
            await asyncio.sleep(0.02)
            await stage.attached(b, "another")

        reports = asyncio.gather(
            *(a.handshake.report(a.record(disk), locked=False) for disk in disks), watch()
        )
        assert (await sent(a, reports))[0] == ("a look" if reads else WRITE)
        assert len(await stage.n0.listed()) == changes

    play(schedule)
