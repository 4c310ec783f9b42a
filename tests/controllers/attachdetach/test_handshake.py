"""The handshake's counterexample schedules (reference/protocol.md), played on the real handshake and a real server.

Each schedule is played twice: with the rules, where the late write is refused and nothing is mounted without a
VolumeAttachment, and with the one rule off that the schedule is about, where it does its harm: so each test can fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mooring.controllers.attachdetach import handshake
from mooring.controllers.attachdetach.decide import Verdict
from mooring.controllers.attachdetach.handshake import Handshake
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound, Unreachable
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.reason import Reason
from mooring.simulation.wire import request
from mooring.volumes.names import DETACHING, NODE_UID

Play = Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]
Patch = pytest.MonkeyPatch

VOLUME = "example.com/disk/d1"
STATUS = request("PATCH", "/nodes/n0/status")
DELETE = request("DELETE", "/volumeattachments/")


# --- how rules are switched off --------------------------------------------------------------------------------------


def without_version_on_the_list(patch: Patch) -> None:
    whole = Client.patch

    async def weak(self: Client, kind: Any, *args: Any, **kw: Any) -> Any:
        if kind is Node:
            kw["resource_version"] = None
        return await whole(self, kind, *args, **kw)

    patch.setattr(Client, "patch", weak)


def without_version_on_the_deletion(patch: Patch) -> None:
    whole = Client.delete

    async def weak(self: Client, *args: Any, **kw: Any) -> Any:
        kw["resource_version"] = None
        return await whole(self, *args, **kw)

    patch.setattr(Client, "delete", weak)


def without_a_change_of_the_node_by_every_unreport(patch: Patch) -> None:
    whole = Handshake._write

    async def weak(self: Handshake, node: Node, volumes: Any, annotations: Any = None) -> Node:
        return await whole(self, node, volumes, None)

    patch.setattr(Handshake, "_write", weak)


def without_a_live_look_at_the_attachment(patch: Patch) -> None:
    async def report(self: Handshake, record: VolumeAttachment) -> bool:
        node = await self._client.get(Node, record.spec.node_name)
        await self._write(node, [{"name": VOLUME, "devicePath": "/dev/d1"}])
        return True

    patch.setattr(Handshake, "report", report)


def with_a_judgement_made_before(patch: Patch) -> None:
    verdict = Verdict(True, True, Reason("OutOfService", "as read earlier"))
    patch.setattr(handshake, "may_release", lambda node, attachment, terms: verdict)


# --- what the steps do -----------------------------------------------------------------------------------------------


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
        assert await a.handshake.report(a.record())
        node = await stage.api.get(Node, "n0")
        assert [(e.name, e.device_path) for e in node.status.volumes_attached] == [(VOLUME, "/dev/d1")]

    play(schedule)


def test_report_of_what_is_not_usable_any_more_writes_nothing(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        record = await stage.attached(a)
        a.freeze()
        await stage.api.patch(VolumeAttachment, record.name, {"metadata": {"annotations": {DETACHING: "t"}}})
        assert not await a.handshake.report(a.record())
        assert await stage.n0.listed() == set()

    play(schedule)


def test_detach_of_an_unused_volume_ends_with_the_deletion_of_the_record(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await a.handshake.report(a.record())
        released = await a.handshake.detach(a.record())
        assert released.verdict.allowed
        assert await stage.n0.listed() == set()
        assert await stage.find() is None

    play(schedule)


def test_detach_of_a_volume_that_turns_out_to_be_used_is_taken_back(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await a.handshake.report(a.record())
        assert await stage.n0.mount()
        released = await a.handshake.detach(a.record())
        assert not released.verdict.allowed
        assert DETACHING not in (await stage.find()).metadata.annotations
        assert await a.handshake.report(a.record()), "put back"

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
        done = await asyncio.gather(*(a.handshake.report(a.record(disk)) for disk in ("d1", "d2", "d3")))
        assert done == [True, True, True]
        assert await stage.n0.listed() == {f"example.com/disk/{disk}" for disk in ("d1", "d2", "d3")}

    play(schedule)


# --- C1, C3: a report arrives late -----------------------------------------------------------------------------------


async def c1_late_report(stage: Any, a: Any, b: Any) -> tuple[int, bool]:
    await stage.attached(a)
    late = a.wire.late(STATUS)
    with pytest.raises(Unreachable):
        await a.handshake.report(a.record())
    assert (await b.handshake.detach(b.record())).verdict.allowed  # the pod is gone
    answer = await late.deliver()
    await stage.n0.mount()  # the pod comes back
    return answer, await stage.harm()


def test_c1_a_report_that_arrives_after_the_detach_is_refused(play: Play):
    assert play(c1_late_report) == (409, False)


def test_c1_does_harm_if_the_list_is_written_without_the_version_it_was_computed_from(play: Play, monkeypatch: Patch):
    without_version_on_the_list(monkeypatch)
    assert play(c1_late_report) == (200, True)


def test_c3_does_harm_if_an_unreport_may_leave_the_node_as_it_is(play: Play, monkeypatch: Patch):
    without_a_change_of_the_node_by_every_unreport(monkeypatch)
    assert play(c1_late_report) == (200, True)


# --- C2: a deletion whose outcome is not known -----------------------------------------------------------------------


async def c2_unanswered_deletion(stage: Any, a: Any, b: Any) -> tuple[bool, bool]:
    await stage.attached(a)
    b.freeze()
    a.wire.unanswered(DELETE)
    with pytest.raises(Unreachable):
        await a.handshake.detach(a.record())
    try:
        reported = await b.handshake.report(b.record())  # from what it knew before
    except NotFound:
        reported = False
    await stage.n0.mount()
    return reported, await stage.harm()


def test_c2_nobody_reports_an_attachment_whose_deletion_was_not_answered(play: Play):
    assert play(c2_unanswered_deletion) == (False, False)


def test_c2_does_harm_without_a_live_look_at_the_attachment(play: Play, monkeypatch: Patch):
    without_a_live_look_at_the_attachment(monkeypatch)
    assert play(c2_unanswered_deletion) == (True, True)


async def c2_late_deletion(stage: Any, a: Any, b: Any) -> tuple[int, bool]:
    await stage.attached(a)
    late = a.wire.late(DELETE)
    with pytest.raises(Unreachable):
        await a.handshake.detach(a.record())
    await asyncio.sleep(0.1)
    await b.handshake.restore(b.record())  # wanted again
    assert await b.handshake.report(b.record())
    assert await stage.n0.mount()
    answer = await late.deliver()
    return answer, await stage.harm()


def test_c2_a_deletion_that_arrives_after_the_volume_was_put_back_is_refused(play: Play):
    assert play(c2_late_deletion) == (409, False)


def test_c2_does_harm_if_the_deletion_does_not_carry_the_marks_version(play: Play, monkeypatch: Patch):
    without_version_on_the_deletion(monkeypatch)
    assert play(c2_late_deletion) == (200, True)


# --- C4: a write for another volume ----------------------------------------------------------------------------------


def test_c4_a_report_of_another_volume_does_not_bring_one_back_that_the_cache_still_thinks_usable(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a, "d1")
        await stage.attached(a, "d2")
        a.freeze()
        late = b.wire.late(DELETE)
        with pytest.raises(Unreachable):
            await b.handshake.detach(b.record("d1"))  # marked and un-reported; the deletion is under way
        assert await a.handshake.report(a.record("d2"))
        assert await stage.n0.listed() == {"example.com/disk/d2"}
        assert not await stage.n0.mount("d1")
        assert await late.deliver() == 200
        assert not await stage.harm("d1")

    play(schedule)


def test_c4_an_unreport_of_another_volume_does_not_bring_one_back_either(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        for disk in ("d1", "d2"):
            await stage.attached(a, disk)
            await a.handshake.report(a.record(disk))
        a.freeze()
        b.wire.late(DELETE)
        with pytest.raises(Unreachable):
            await b.handshake.detach(b.record("d1"))
        assert (await a.handshake.detach(a.record("d2"))).verdict.allowed
        assert await stage.n0.listed() == set()

    play(schedule)


def test_c4_a_late_write_for_another_volume_is_refused(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a, "d1")
        await stage.attached(a, "d2")
        await a.handshake.report(a.record("d1"))
        late = a.wire.late(STATUS)
        with pytest.raises(Unreachable):
            await a.handshake.report(a.record("d2"))  # carries d1, too
        assert (await b.handshake.detach(b.record("d1"))).verdict.allowed
        assert await late.deliver() == 409
        assert await stage.n0.listed() == set()

    play(schedule)


# --- C7, C11: a forced release ---------------------------------------------------------------------------------------


async def c7_the_node_comes_back(stage: Any, a: Any, b: Any) -> tuple[bool, bool]:
    await stage.attached(a)
    await a.handshake.report(a.record())
    assert await stage.n0.mount()
    await stage.n0.falls_silent()
    await stage.n0.taint("2030-01-01T00:00:05Z")  # ... upon which a detach was decided
    look = a.wire.hold(request("GET", "/nodes/n0"))
    detaching = asyncio.create_task(a.handshake.detach(a.record()))
    await look.arrived.wait()
    await stage.n0.report()  # it was not dead: the agent speaks, under the taint
    look.release()
    return (await detaching).verdict.allowed, await stage.harm()


def test_c7_a_node_that_has_come_back_keeps_what_it_uses_whatever_was_read_before(play: Play):
    assert play(c7_the_node_comes_back) == (False, False)


def test_c7_does_harm_if_an_earlier_read_is_judged(play: Play, monkeypatch: Patch):
    with_a_judgement_made_before(monkeypatch)
    assert play(c7_the_node_comes_back) == (True, True)


def test_c7_a_node_that_speaks_between_look_and_unreport_makes_the_unreport_fail(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.n0.falls_silent()
        await stage.n0.taint("2030-01-01T00:00:05Z")
        write = a.wire.hold(STATUS)
        detaching = asyncio.create_task(a.handshake.detach(a.record()))
        await write.arrived.wait()
        await stage.n0.report(in_use=(VOLUME,))
        write.release()
        with pytest.raises(Conflict):
            await detaching
        assert await stage.find() is not None

    play(schedule)


async def c11_left_over_taint(stage: Any, a: Any, b: Any) -> str:
    await stage.attached(a)
    await a.handshake.report(a.record())
    await stage.n0.falls_silent()
    await stage.n0.taint("2030-01-01T00:00:05Z")  # rightly: the machine is off
    await stage.n0.report()  # it is on again; nobody removes the taint
    assert await stage.n0.mount()
    await stage.n0.falls_silent()  # this time it is only cut off, and writes
    return (await a.handshake.detach(a.record())).verdict.reason.code


def test_c11_a_taint_under_which_the_node_has_reported_releases_nothing(play: Play):
    assert play(c11_left_over_taint) == "TaintSpent"


def test_c11_does_harm_if_taints_are_never_spent(play: Play, monkeypatch: Patch):
    monkeypatch.setattr("mooring.volumes.out_of_service.spent", lambda node: False)
    assert play(c11_left_over_taint) == "OutOfService"


def test_c11_a_taint_set_anew_releases(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        assert await c11_left_over_taint(stage, a, b) == "TaintSpent"
        await stage.n0.taint("2030-01-01T00:09:00Z")
        await asyncio.sleep(0.1)
        assert (await a.handshake.detach(a.record())).verdict.forced

    play(schedule)


# --- C13: a node registered anew -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reconstructed", "allowed"), [(False, False), (True, True)])
def test_c13_a_node_registered_anew_releases_only_after_its_agent_has_looked(
    play: Play, reconstructed: bool, allowed: bool
):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.api.delete(Node, "n0")
        await stage.n0.register(reconstructed=reconstructed)
        assert (await a.handshake.detach(a.record())).verdict.allowed is allowed

    play(schedule)


def test_c13_a_node_registered_anew_with_the_mounts_that_it_found_releases_nothing(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.api.delete(Node, "n0")
        await stage.n0.register(in_use=(VOLUME,))
        assert not (await a.handshake.detach(a.record())).verdict.allowed

    play(schedule)


# --- any single late or lost request ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lose", "unanswered", "late"])
@pytest.mark.parametrize("at", range(4))
def test_a_detach_that_loses_any_of_its_requests_is_finished_by_another_leader(play: Play, kind: str, at: int):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await a.handshake.report(a.record())
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
