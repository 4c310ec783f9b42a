"""The counterexample schedules C1–C16 of docs/protocol.md, played on the real handshake and a real server.

Each schedule is played twice: with the rules, where the late write is refused and nothing is
mounted without a VolumeAttachment, and with the one rule off that the schedule is about, where it
does its harm: so each test can fail.

Elsewhere: C5 and C6 (the node's own rules) in tests/cluster/in_process/test_agent_counterexamples.py, C15
(requests to the storage) in tests/controllers/attacher/test_requests.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import pytest

from mooring.controllers.attachdetach import decide, handshake, locks, release, state
from mooring.controllers.attachdetach.attached_lists import AttachedLists
from mooring.controllers.attachdetach.handshake import TOO_OLD_S
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.state import Terms
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound, Unreachable
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.kube.reason import Reason
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.attachment_lock import Lock, lock_of
from mooring.volumes.names import CONFIRMED_DEAD, FENCE_EVIDENCE
from mooring.volumes.spec import VolumeSpec
from mooring.volumes.statements import annotation, statement_about

Play = Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]
Patch = pytest.MonkeyPatch

VOLUME = "example.com/disk/d1"
STATUS = request("PATCH", "/nodes/n0/status")
CREATE = request("POST", "/volumeattachments")
DELETE = request("DELETE", "/volumeattachments/")


# --- how rules are switched off


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
    whole = AttachedLists._write

    async def weak(self: AttachedLists, node: Node, volumes: Any, annotations: Any = None) -> Node:
        return await whole(self, node, volumes, None)

    patch.setattr(AttachedLists, "_write", weak)


def without_a_live_look_at_the_attachment(patch: Patch) -> None:
    async def report(self: AttachedLists, record: VolumeAttachment, *, locked: bool = False) -> bool:
        node = await self._client.get(Node, record.spec.node_name)
        await self._write(node, [{"name": VOLUME, "devicePath": "/dev/d1"}])
        return True

    patch.setattr(AttachedLists, "report", report)


def with_a_judgement_made_before(patch: Patch) -> None:
    verdict = ReleaseDecision(Release.FORCE, Reason("OutOfService", "as read earlier"))
    patch.setattr(handshake, "may_release", lambda node, attachment, terms: verdict)


def with_not_ready_taken_for_silent(patch: Patch) -> None:
    def weak(node: Any, attachment: Any, terms: Any) -> ReleaseDecision:
        code = "OutOfService" if node and node.tainted and node.ready != "True" else "InUse"
        action = Release.FORCE if code == "OutOfService" else Release.KEEP
        return ReleaseDecision(action, Reason(code, "not ready"))

    patch.setattr(handshake, "may_release", weak)


def with_any_node_of_that_name(patch: Patch) -> None:
    for module in (release, decide):
        patch.setattr(module, "is_same_node", lambda node, attachment: True)


def without_a_comparison_of_epochs(patch: Patch) -> None:
    async def anyhow(self: Locks, record: VolumeAttachment) -> bool:
        return True

    patch.setattr(Locks, "is_current", anyhow)


def without_an_advance_of_the_epoch(patch: Patch) -> None:
    def same_epoch(self: Lock, node: Node, pod: str, *, first: int = 1) -> Lock:
        return msgspec.structs.replace(self, epoch=1, node=node.name, pod=pod)

    patch.setattr(Lock, "granted", same_epoch)
    whole = Lock.released
    patch.setattr(
        Lock,
        "released",
        lambda self, node, boot_id, *, advance, first: whole(self, node, "", advance=False, first=first),
    )


# --- C1, C3: a report arrives late


async def c1_late_report(stage: Any, a: Any, b: Any) -> tuple[int, bool]:
    await stage.attached(a)
    late = a.wire.late(STATUS)
    with pytest.raises(Unreachable):
        await a.handshake.report(a.record(), locked=False)
    assert (await b.handshake.detach(b.record())).verdict.allowed  # the pod is gone
    answer = await late.deliver()
    await stage.n0.mount()  # the pod comes back
    return answer, await stage.harm()


def test_c1_a_report_that_arrives_after_the_detach_is_refused(play: Play):
    assert play(c1_late_report) == (409, False)


def test_c1_does_harm_if_the_list_is_written_without_the_version_it_was_computed_from(
    play: Play, monkeypatch: Patch
):
    without_version_on_the_list(monkeypatch)
    assert play(c1_late_report) == (200, True)


def test_c3_does_harm_if_an_unreport_may_leave_the_node_as_it_is(play: Play, monkeypatch: Patch):
    without_a_change_of_the_node_by_every_unreport(monkeypatch)
    assert play(c1_late_report) == (200, True)


# --- C2: a deletion whose outcome is not known


async def c2_unanswered_deletion(stage: Any, a: Any, b: Any) -> tuple[bool, bool]:
    await stage.attached(a)
    b.freeze()
    a.wire.unanswered(DELETE)
    with pytest.raises(Unreachable):
        await a.handshake.detach(a.record())
    try:
        reported = await b.handshake.report(b.record(), locked=False)  # from what it knew before
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
    assert await b.handshake.report(b.record(), locked=False)
    assert await stage.n0.mount()
    answer = await late.deliver()
    return answer, await stage.harm()


def test_c2_a_deletion_that_arrives_after_the_volume_was_put_back_is_refused(play: Play):
    assert play(c2_late_deletion) == (409, False)


def test_c2_does_harm_if_the_deletion_does_not_carry_the_marks_version(play: Play, monkeypatch: Patch):
    without_version_on_the_deletion(monkeypatch)
    assert play(c2_late_deletion) == (200, True)


# --- C4: a write for another volume


def test_c4_a_report_of_another_volume_does_not_bring_one_back_that_the_cache_still_thinks_usable(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a, "d1")
        await stage.attached(a, "d2")
        a.freeze()
        late = b.wire.late(DELETE)
        with pytest.raises(Unreachable):
            await b.handshake.detach(b.record("d1"))  # marked and un-reported; the deletion is in flight
        assert await a.handshake.report(a.record("d2"), locked=False)
        assert await stage.n0.listed() == {"example.com/disk/d2"}
        assert not await stage.n0.mount("d1")
        assert await late.deliver() == 200
        assert not await stage.harm("d1")

    play(schedule)


def test_c4_an_unreport_of_another_volume_does_not_bring_one_back_either(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        for disk in ("d1", "d2"):
            await stage.attached(a, disk)
            await a.handshake.report(a.record(disk), locked=False)
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
        await a.handshake.report(a.record("d1"), locked=False)
        late = a.wire.late(STATUS)
        with pytest.raises(Unreachable):
            await a.handshake.report(a.record("d2"), locked=False)  # carries d1, too
        assert (await b.handshake.detach(b.record("d1"))).verdict.allowed
        assert await late.deliver() == 409
        assert await stage.n0.listed() == set()

    play(schedule)


# --- C7, C11: a forced release


async def c7_the_node_comes_back(stage: Any, a: Any, b: Any) -> tuple[bool, bool]:
    await stage.attached(a)
    await a.handshake.report(a.record(), locked=False)
    assert await stage.n0.mount()
    await stage.n0.falls_silent()
    await stage.n0.taint("2030-01-01T00:00:05Z")  # ... upon which a detach was decided
    write = a.wire.hold(STATUS)
    detaching = asyncio.create_task(a.handshake.detach(a.record()))
    await write.arrived.wait()
    await stage.n0.report()  # the node was not dead: its agent reports under the taint
    write.release()
    return (await detaching).verdict.allowed, await stage.harm()


def test_c7_a_node_that_has_come_back_keeps_what_it_uses_whatever_was_read_before(play: Play):
    assert play(c7_the_node_comes_back) == (False, False)


def test_c7_does_harm_if_an_earlier_read_is_judged(play: Play, monkeypatch: Patch):
    with_a_judgement_made_before(monkeypatch)
    assert play(c7_the_node_comes_back) == (True, True)


def test_c7_a_node_that_speaks_between_look_and_unreport_is_heard(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.n0.falls_silent()
        await stage.n0.taint("2030-01-01T00:00:05Z")
        write = a.wire.hold(STATUS)
        detaching = asyncio.create_task(a.handshake.detach(a.record()))
        await write.arrived.wait()
        await stage.n0.report(in_use=(VOLUME,))
        write.release()
        assert not (await detaching).verdict.allowed
        assert await stage.find() is not None

    play(schedule)


async def silent_and_mounted(stage: Any, a: Any) -> None:
    """A node that has its volume mounted, is silent, and declared out of service."""
    await stage.attached(a)
    await a.handshake.report(a.record(), locked=False)
    assert await stage.n0.mount()
    await stage.n0.falls_silent()
    await stage.n0.taint("2030-01-01T00:00:05Z")


def delay_unreports(a: Any, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Something happens between the answer to an un-report and what is done with it."""
    real = a.handshake.lists.unreport

    async def unreport(*asked: Any) -> Any:
        answer = await real(*asked)
        await meanwhile()
        return answer

    a.handshake.lists.unreport = unreport


@pytest.mark.parametrize("stands_still", [0.0, TOO_OLD_S + 1])
def test_c7_what_a_process_has_seen_before_it_stood_still_takes_nothing_by_force(
    play: Play, stands_still: float
):
    async def schedule(stage: Any, a: Any, b: Any):
        await silent_and_mounted(stage, a)
        delay_unreports(a, lambda: asyncio.sleep(stands_still))
        with pytest.raises(Conflict) if stands_still else contextlib.nullcontext():
            await a.handshake.detach(a.record())
        assert (await stage.find() is not None) == bool(stands_still)

    play(schedule)


def test_c7_what_a_process_has_seen_before_its_machine_slept_takes_nothing_by_force(
    play: Play, asleep: Callable[[float], None]
):
    async def schedule(stage: Any, a: Any, b: Any):
        async def sleeps() -> None:
            asleep(3600)

        await silent_and_mounted(stage, a)
        delay_unreports(a, sleeps)
        with pytest.raises(Conflict):
            await a.handshake.detach(a.record())
        assert await stage.find() is not None

    play(schedule)


async def c11_left_over_taint(stage: Any, a: Any, b: Any) -> str:
    await stage.attached(a)
    await a.handshake.report(a.record(), locked=False)
    await stage.n0.falls_silent()
    await stage.n0.taint("2030-01-01T00:00:05Z")  # rightly: the machine is off
    await stage.n0.report()  # the node is on again; the taint stays
    assert await stage.n0.mount()
    await stage.n0.falls_silent()  # this time the node is only cut off, and writes
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


# --- C13: a node registered anew


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


# --- C8, C9: evidence of a fence


async def boots(stage: Any, boot_id: str) -> None:
    status = {"status": {"nodeInfo": {"bootID": boot_id}}}
    await stage.api.patch(Node, "n0", status, subresource="status")


async def annotate(stage: Any, **annotations: str) -> None:
    """Another client writes on the VolumeAttachment; the leaders' caches learn of it."""
    record = await stage.find()
    await stage.api.patch(VolumeAttachment, record.name, {"metadata": {"annotations": annotations}})
    await asyncio.sleep(0.1)


async def released(stage: Any, leader: Any, terms: Terms = state.NO_POLICY) -> tuple[str, bool]:
    found = await leader.handshake.detach(leader.record(), terms)
    return found.verdict.reason.code, await stage.harm()


async def fenced(stage: Any, leader: Any, begun: str = "") -> None:
    """A fence powered the machine off, rightly: its evidence names uid and boot as the API showed them."""
    await boots(stage, "b1")
    await stage.attached(leader)
    await leader.handshake.report(leader.record(), locked=False)
    node = await stage.api.get(Node, "n0")
    evidence = {"nodeUID": node.uid, "bootID": "b1", "begun": begun, "by": "ipmi"}
    await annotate(stage, **{FENCE_EVIDENCE: msgspec.json.encode(evidence).decode()})


async def c8_another_boot(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
    await fenced(stage, a)
    await boots(stage, "b2")  # power is back: the agent mounts under the same VolumeAttachment
    assert await stage.n0.mount()
    await stage.n0.falls_silent()
    await asyncio.sleep(0.1)
    return await released(stage, a)


def test_c8_evidence_about_another_boot_releases_nothing(play: Play):
    assert play(c8_another_boot) == ("NodeNotAnswering", False)


def test_c8_does_harm_if_evidence_names_the_uid_alone(play: Play, monkeypatch: Patch):
    monkeypatch.setattr(release, "evidence_holds", lambda evidence, node, uid: evidence.node_uid == uid)
    assert play(c8_another_boot) == ("Fenced", True)


def test_c8_evidence_about_the_boot_that_the_api_shows_releases(play: Play):
    async def schedule(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
        await fenced(stage, a)
        await stage.n0.report(in_use=(VOLUME,))
        await stage.n0.falls_silent()
        await asyncio.sleep(0.1)
        return await released(stage, a)

    assert play(schedule) == ("Fenced", False)


async def c9_absent_node(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
    await fenced(stage, a, begun="2030-01-01T00:00:00Z")
    await boots(stage, "b2")
    assert await stage.n0.mount()
    await stage.api.delete(Node, "n0")
    await asyncio.sleep(0.1)
    return await released(stage, a)


def test_c9_of_an_absent_node_an_earlier_fence_releases_nothing(play: Play):
    assert play(c9_absent_node) == ("NodeGone", False)


def test_c9_does_harm_if_evidence_outlives_the_node(play: Play, monkeypatch: Patch):
    monkeypatch.setattr(release, "evidence_holds", lambda evidence, node, uid: evidence.node_uid == uid)
    assert play(c9_absent_node) == ("Fenced", True)


# --- C10: a live agent that is not ready


async def c10_not_ready(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
    await stage.attached(a)
    await a.handshake.report(a.record(), locked=False)
    assert await stage.n0.mount()
    await stage.api.patch(
        Node, "n0", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status"
    )
    await stage.n0.taint("2030-01-01T00:00:05Z")
    return await released(stage, a)


def test_c10_a_taint_on_a_node_whose_agent_says_that_it_is_not_ready_releases_nothing(play: Play):
    assert play(c10_not_ready) == ("InUse", False)


def test_c10_does_harm_if_not_ready_is_taken_for_silent(play: Play, monkeypatch: Patch):
    with_not_ready_taken_for_silent(monkeypatch)
    assert play(c10_not_ready) == ("OutOfService", True)


# --- C12: an administrator who is wrong, or right at another time


async def c12_deleted_while_it_writes(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
    await stage.attached(a)
    await a.handshake.report(a.record(), locked=False)
    assert await stage.n0.mount()
    await stage.api.delete(Node, "n0")  # it is only cut off
    policy = a.terms(stage, node_deletion_confirms_death=True) if stage.trusts_deletion else a.terms(stage)
    await a.handshake.detach(a.record(), policy)
    await asyncio.sleep(41)
    policy = a.terms(stage, node_deletion_confirms_death=True) if stage.trusts_deletion else a.terms(stage)
    return await released(stage, a, policy)


def test_c12_the_deletion_of_a_node_releases_nothing(play: Play):
    async def schedule(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
        stage.trusts_deletion = False
        return await c12_deleted_while_it_writes(stage, a, b)

    assert play(schedule) == ("NodeGone", False)


def test_c12_does_harm_where_a_wrong_deletion_is_trusted(play: Play):
    async def schedule(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
        stage.trusts_deletion = True
        return await c12_deleted_while_it_writes(stage, a, b)

    assert play(schedule) == ("NodeDeleted", True)


async def c12b_stated_and_booted(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
    await boots(stage, "b1")
    await stage.attached(a)
    await a.handshake.report(a.record(), locked=False)
    await stage.n0.falls_silent()
    node = await stage.api.get(Node, "n0")
    await annotate(
        stage, **annotation(statement_about(node, "an operator", "now"))
    )  # rightly: the machine is off
    assert CONFIRMED_DEAD in (await stage.find()).metadata.annotations
    await boots(stage, "b2")
    assert await stage.n0.mount()
    await stage.n0.falls_silent()
    await asyncio.sleep(0.1)
    return await released(stage, a)


def test_c12b_a_statement_is_void_when_the_node_has_reported_again(play: Play):
    assert play(c12b_stated_and_booted) == ("NodeNotAnswering", False)


def test_c12b_does_harm_if_the_statement_names_the_uid_alone(play: Play, monkeypatch: Patch):
    monkeypatch.setattr(release, "statement_holds", lambda statement, node, uid: statement.node_uid == uid)
    assert play(c12b_stated_and_booted) == ("ConfirmedDead", True)


def test_c12b_a_statement_about_a_node_that_is_there_does_not_outlive_it(play: Play):
    async def schedule(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
        await stage.attached(a)
        await stage.n0.falls_silent()
        node = await stage.api.get(Node, "n0")
        await annotate(stage, **annotation(statement_about(node, "an operator", "now")))
        await stage.api.delete(Node, "n0")
        return await released(stage, a)

    assert play(schedule) == ("NodeGone", False)


# --- C13: a node registered anew


async def c13_registered_anew(stage: Any, a: Any, b: Any) -> tuple[str, bool]:
    await stage.attached(a)
    await a.handshake.report(a.record(), locked=False)
    assert await stage.n0.mount()
    await stage.api.delete(Node, "n0")
    await stage.n0.register(reconstructed=False)  # empty, though the volume is mounted
    await asyncio.sleep(0.1)
    return await released(stage, a)


def test_c13_a_node_of_another_uid_counts_as_using_it_until_it_has_looked(play: Play):
    assert play(c13_registered_anew) == ("InUse", False)


def test_c13_does_harm_if_any_node_of_that_name_may_speak(play: Play, monkeypatch: Patch):
    with_any_node_of_that_name(monkeypatch)
    assert play(c13_registered_anew) == ("NotInUse", True)


def test_c13_a_node_of_another_uid_is_not_told_before_the_attachment_is_stamped(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        await stage.api.delete(Node, "n0")
        anew = await stage.n0.register()
        assert not await a.handshake.report(a.record(), locked=False)
        await asyncio.sleep(0.1)
        await a.handshake.restamp(a.record(), anew)
        assert await a.handshake.report(a.record(), locked=False)

    play(schedule)


# --- C14: storage that does not refuse


async def granted(stage: Any, leader: Any, node: str, pod: str) -> VolumeAttachment:
    """Grants the lock to a node, creates its VolumeAttachment, and carries that out."""
    live = await stage.api.get(PersistentVolume, "pv-d1")
    there = await stage.api.get(Node, node)
    spec = VolumeSpec.of_persistent_volume(live)
    record = await leader.handshake.attach(VOLUME, there, spec, locked=True, pod=pod)
    return await stage.fulfilled(record)


async def c14_late_creation(stage: Any, a: Any, b: Any, *, remade: bool = False) -> tuple[bool, bool]:
    await stage.persistent_volume()
    await stage.n1.register()
    late = a.wire.late(CREATE)
    with pytest.raises(Unreachable):
        await granted(stage, a, "n0", "default/p")
    if remade:
        await stage.api.delete(PersistentVolume, "pv-d1")
        await stage.api.patch(PersistentVolume, "pv-d1", {"metadata": {"finalizers": None}})
        await stage.persistent_volume()
    await stage.fulfilled(await granted(stage, b, "n1", "default/q"))  # p is gone, q came
    await asyncio.sleep(0.1)
    assert await b.handshake.report(b.record(node="n1"), locked=True)
    assert await stage.n1.mount()
    assert await late.deliver() == 201
    await stage.fulfilled(await stage.find())  # an attacher that does not look
    await asyncio.sleep(0.1)
    reported = await b.handshake.report(b.record(), locked=True)  # p came back
    return reported, await stage.n0.mount()


def test_c14_a_late_creation_under_an_older_epoch_is_told_to_nobody(play: Play):
    assert play(c14_late_creation) == (False, False)


def test_c14_the_epochs_of_a_volume_that_is_deleted_and_made_anew_go_on(play: Play):
    """A user takes a PersistentVolume away, and writes one of the same name for the same disk."""
    assert play(partial(c14_late_creation, remade=True)) == (False, False)


def test_c14_does_harm_if_nobody_compares_epochs(play: Play, monkeypatch: Patch):
    without_a_comparison_of_epochs(monkeypatch)
    assert play(c14_late_creation) == (True, True)


def test_c14_a_lock_granted_while_another_node_has_the_volume_leads_to_no_attachment(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        await stage.n1.register()
        await granted(stage, a, "n0", "default/p")
        with pytest.raises(Conflict, match="has a VolumeAttachment on node n0"):
            await granted(stage, b, "n1", "default/q")
        assert await stage.find(node="n1") is None

    play(schedule)


def test_c14_what_the_storage_has_detached_does_not_keep_the_lock_from_another_node(play: Play):
    """A VolumeAttachment that is kept because a detach may still take effect (C15)."""

    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        await stage.n1.register()
        kept = await granted(stage, a, "n0", "default/p")
        await annotate(stage, **{"mooring.dev/detached": "now"})
        with pytest.raises(Conflict, match="has a VolumeAttachment on node n0"):
            await granted(stage, b, "n1", "default/q")  # it is not even being deleted
        await stage.api.patch(
            VolumeAttachment, kept.name, {"metadata": {"finalizers": ["mooring.dev/attacher"]}}
        )
        await stage.api.delete(VolumeAttachment, kept.name)
        assert (await granted(stage, b, "n1", "default/q")).status.attached

    play(schedule)


def test_c14_an_own_attachment_of_an_older_epoch_is_stamped_anew(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        record = await granted(stage, a, "n0", "default/p")
        live = await stage.api.get(PersistentVolume, "pv-d1")
        await a.handshake.locks._swap(live, msgspec.structs.replace(lock_of(live), epoch=7, node="n1"))
        await asyncio.sleep(0.1)
        assert not await a.handshake.report(a.record(), locked=True)
        await a.handshake.grant(a.record(), await stage.api.get(Node, "n0"), "default/p")
        assert await a.handshake.report(a.record(), locked=True)
        assert lock_of(await stage.api.get(PersistentVolume, "pv-d1")).epoch == 8
        assert record.uid == (await stage.find()).uid

    play(schedule)


def test_c14_two_leaders_who_grant_at_once_grant_to_one(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        await stage.n1.register()
        swap = a.wire.hold(request("PATCH", "/persistentvolumes/"))
        first = asyncio.create_task(granted(stage, a, "n0", "default/p"))
        await swap.arrived.wait()
        await granted(stage, b, "n1", "default/q")
        swap.release()
        with pytest.raises(Conflict):
            await first
        assert await stage.find() is None

    play(schedule)


def test_c14_two_attachments_that_neither_was_carried_out_do_not_wait_for_each_other(play: Play):
    """Found by the model: each of two leaders has created one, under an epoch that the other
    has advanced since."""

    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        await stage.n1.register()
        late = a.wire.late(CREATE)
        with pytest.raises(Unreachable):
            await granted(stage, a, "n0", "default/p")
        there = await stage.api.get(Node, "n1")
        spec = VolumeSpec.of_persistent_volume(await stage.api.get(PersistentVolume, "pv-d1"))
        await b.handshake.attach(VOLUME, there, spec, locked=True, pod="default/q")
        assert await late.deliver() == 201
        await asyncio.sleep(0.1)
        await b.handshake.grant(b.record(), await stage.api.get(Node, "n0"), "default/p")
        await b.handshake.grant(b.record(node="n1"), there, "default/q")
        await stage.fulfilled(await stage.find(node="n1"))
        with pytest.raises(Conflict, match="has a VolumeAttachment on node n1"):
            await b.handshake.grant(b.record(), await stage.api.get(Node, "n0"), "default/p")

    play(schedule)


# --- C16: after a release by force


async def taken_by_force(stage: Any, a: Any) -> None:
    """n0 is cut off, with the volume still mounted; the timer takes the volume from it."""
    await stage.persistent_volume()
    await boots(stage, "b1")
    await granted(stage, a, "n0", "default/p")
    await asyncio.sleep(0.1)
    await a.handshake.report(a.record(), locked=True)
    assert await stage.n0.mount()
    await stage.n0.falls_silent()
    await annotate(stage, **{"mooring.dev/force-detach-since": "2029-01-01T00:00:00Z"})
    found = await a.handshake.detach(a.record(), a.terms(stage, force_detach_after=360.0))
    assert found.verdict.reason.code == "ForceDetachTimeout"
    assert await stage.find() is None


async def c16_attached_to_it_again(stage: Any, a: Any, b: Any) -> bool:
    await taken_by_force(stage, a)
    await stage.n0.report(in_use=(VOLUME,))  # it is there again: the same boot, with its old mount
    try:
        await granted(stage, b, "n0", "default/q")
    except Conflict:
        return False
    return VOLUME in stage.n0.mounted  # the old mount writes again


def test_c16_a_node_from_which_a_volume_was_taken_is_closed_for_it(play: Play):
    assert play(c16_attached_to_it_again) is False


def test_c16_does_harm_if_the_node_is_not_closed(play: Play, monkeypatch: Patch):
    monkeypatch.setattr(locks, "may_open", lambda closed, node, volume: True)
    assert play(c16_attached_to_it_again) is True


def test_c16_it_is_opened_by_a_node_without_the_volume_or_by_another_boot(play: Play):
    async def without(stage: Any, a: Any, b: Any):
        await taken_by_force(stage, a)
        await stage.n0.report(in_use=())
        assert (await granted(stage, b, "n0", "default/q")).status.attached

    async def rebooted(stage: Any, a: Any, b: Any):
        await taken_by_force(stage, a)
        await boots(stage, "b2")
        await stage.n0.report(in_use=(VOLUME,))  # a pod waits there
        assert (await granted(stage, b, "n0", "default/q")).status.attached

    play(without)
    play(rebooted)


async def c16_late_creation(stage: Any, a: Any, b: Any) -> bool:
    await taken_by_force(stage, a)
    assert await stage.late.deliver() == 201  # a dead leader's, from before
    await stage.fulfilled(await stage.find())
    await stage.n0.report(in_use=(VOLUME,))
    await asyncio.sleep(0.1)
    return await b.handshake.report(b.record(), locked=True)


async def c16_scene(stage: Any, a: Any, b: Any) -> bool:
    await stage.persistent_volume()
    stage.late = b.wire.late(CREATE)
    node = await stage.api.get(Node, "n0")
    live = await stage.api.get(PersistentVolume, "pv-d1")
    with pytest.raises(Unreachable):
        await b.handshake.attach(
            VOLUME, node, VolumeSpec.of_persistent_volume(live), locked=True, pod="default/p"
        )
    return await c16_late_creation(stage, a, b)


def test_c16_a_late_creation_does_not_pass_the_gate(play: Play):
    assert play(c16_scene) is False


def test_c16_does_harm_if_a_forced_release_does_not_advance_the_epoch(play: Play, monkeypatch: Patch):
    without_an_advance_of_the_epoch(monkeypatch)
    assert play(c16_scene) is True
