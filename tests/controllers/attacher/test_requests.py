"""A request that was not answered may still take effect: what that means for the
VolumeAttachment, over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from disk_record import reconciled, slow_requests, struck, unanswered, wanted, wanted_again

from mooring.controllers.attachdetach.state import is_detached
from mooring.controllers.attacher import requests
from mooring.controllers.attacher.controller import AttacherController, AttacherOptions
from mooring.controllers.attacher.slots import Slots
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.volumes.errors import LockNotHeld, VolumeInUse

Desk = Callable[[Any], Any]
Patch = pytest.MonkeyPatch
START = datetime(2030, 1, 1, tzinfo=UTC)
VALIDITY_S = 100.0


def test_only_requests_within_their_validity_are_outstanding():
    first = requests.begun((), START, VALIDITY_S)
    both = requests.begun((first,), START + timedelta(seconds=60), VALIDITY_S)
    assert both.startswith(f"{first},")
    sent = tuple(both.split(","))
    assert requests.outstanding_for(sent, START + timedelta(seconds=90), VALIDITY_S) == 70
    assert requests.outstanding_for(sent, START + timedelta(seconds=161), VALIDITY_S) == 0
    assert requests.begun(sent, START + timedelta(seconds=110), VALIDITY_S).count(",") == 1, (
        "the first has passed"
    )
    assert requests.without(sent, sent[1]) == first
    assert requests.without((first,), first) is None
    assert requests.outstanding_for(sent, START + timedelta(seconds=60), 0.0) == 0, (
        "requests that die with their sender"
    )


@pytest.fixture
def slow_storage(monkeypatch: Patch) -> None:
    """A storage that may carry requests out for VALIDITY_S after they were sent."""
    slow_requests(monkeypatch, VALIDITY_S)


async def late_attach(desk: Any) -> tuple[bool, bool]:
    """C15: an attach is not answered; the VolumeAttachment is deleted; then the attach takes effect."""
    await wanted(desk)
    attacher = desk.make(AttacherController, plugins=desk.plugins())
    late = unanswered(desk, "attach")
    with pytest.raises(TimeoutError):
        await reconciled(desk, attacher)
    await desk.api.delete(VolumeAttachment, "va")
    successor = desk.make(AttacherController, plugins=desk.plugins())
    await reconciled(desk, successor)  # the storage says "not attached"
    await late[0]()
    kept = await desk.api.find(VolumeAttachment, "va") is not None
    await asyncio.sleep(VALIDITY_S + 1)
    if kept:
        await reconciled(desk, successor)
    return kept, desk.array.attached != {}


def test_c15_a_late_attach_finds_its_record_still_there(desk: Desk, slow_storage: None):
    assert desk(late_attach) == (True, False)


def test_c15_does_harm_if_nothing_counts_as_outstanding(desk: Desk, slow_storage: None, monkeypatch: Patch):
    monkeypatch.setattr(requests, "outstanding_for", lambda unanswered, now, validity_s: 0.0)
    assert desk(late_attach) == (False, True)


async def late_detach(desk: Any) -> tuple[bool, bool]:
    """C15: a detach is not answered, its repetition is; the volume is attached anew; then
    the first detach takes effect."""
    await wanted(desk)
    attacher = desk.make(AttacherController, plugins=desk.plugins())
    await reconciled(desk, attacher)
    await desk.api.delete(VolumeAttachment, "va")
    late = unanswered(desk, "detach")
    with pytest.raises(TimeoutError):
        await reconciled(desk, attacher)
    await reconciled(desk, attacher)
    kept = await desk.api.find(VolumeAttachment, "va") is not None
    if not kept:
        await wanted_again(desk)
        await reconciled(desk, attacher)
    await late[0]()
    return kept, await struck(desk)


def test_c15_a_late_detach_finds_the_volume_nowhere_else(desk: Desk, slow_storage: None):
    assert desk(late_detach) == (True, False)


def test_c15_a_late_detach_does_harm_if_nothing_counts_as_outstanding(
    desk: Desk, slow_storage: None, monkeypatch: Patch
):
    monkeypatch.setattr(requests, "outstanding_for", lambda unanswered, now, validity_s: 0.0)
    assert desk(late_detach) == (False, True)


def test_a_detach_that_was_answered_does_not_keep_later_ones_waiting(desk: Desk, slow_storage: None):
    """However often it is reconciled, the VolumeAttachment goes when its one unanswered
    request has expired."""

    async def scene(desk: Any):
        await wanted(desk)
        attacher = desk.make(AttacherController, plugins=desk.plugins())
        await reconciled(desk, attacher)
        await desk.api.delete(VolumeAttachment, "va")
        unanswered(desk, "detach")
        with pytest.raises(TimeoutError):
            await reconciled(desk, attacher)
        for _ in range(5):
            await reconciled(desk, attacher)
            await asyncio.sleep(VALIDITY_S / 4)
        assert await desk.api.find(VolumeAttachment, "va") is None

    desk(scene)


async def detached_twice(desk: Any) -> VolumeAttachment | None:
    """A detach is not answered, its repetition is."""
    await desk.api.delete(VolumeAttachment, "va")
    unanswered(desk, "detach")
    attacher = desk.make(AttacherController, plugins=desk.plugins())
    with pytest.raises(TimeoutError):
        await reconciled(desk, attacher)
    return await reconciled(desk, attacher)


def test_when_only_a_detach_may_come_late_the_record_says_that_others_may_have_the_volume(
    desk: Desk, slow_storage: None
):
    async def scene(desk: Any):
        await wanted(desk)
        await reconciled(desk, desk.make(AttacherController, plugins=desk.plugins()))
        kept = await detached_twice(desk)
        assert kept is not None and is_detached(kept)

    desk(scene)


def test_while_an_attach_may_come_late_nobody_else_may_have_the_volume(desk: Desk, slow_storage: None):
    async def scene(desk: Any):
        await wanted(desk)
        unanswered(desk, "attach")
        with pytest.raises(TimeoutError):
            await reconciled(desk, desk.make(AttacherController, plugins=desk.plugins()))
        kept = await detached_twice(desk)
        assert kept is not None and not is_detached(kept)

    desk(scene)


def test_a_clock_that_was_put_back_does_not_keep_an_attach_outstanding(desk: Desk, slow_storage: None):
    async def scene(desk: Any):
        await wanted(desk)
        await reconciled(desk, desk.make(AttacherController, plugins=desk.plugins()))
        kept = await detached_twice(desk)
        assert kept is not None and is_detached(kept)
        ahead = requests.begun((), desk.now() + timedelta(hours=1), VALIDITY_S)
        patch = {"metadata": {"annotations": {"mooring.dev/attach-requested-at": f"{ahead},{ahead}"}}}
        await desk.api.patch(VolumeAttachment, "va", patch)
        attacher = desk.make(AttacherController, plugins=desk.plugins())
        await reconciled(desk, attacher)
        await asyncio.sleep(VALIDITY_S + 1)
        await reconciled(desk, attacher)
        assert await desk.api.find(VolumeAttachment, "va") is None

    desk(scene)


def test_what_another_process_has_noted_meanwhile_is_not_taken_back_with_an_answered_request(
    desk: Desk, slow_storage: None
):
    """Two attachers for a moment: the refusal of one's request does not answer the other's."""

    async def scene(desk: Any):
        await wanted(desk)
        await reconciled(desk, desk.make(AttacherController, plugins=desk.plugins()))
        await desk.api.delete(VolumeAttachment, "va")
        noted = "mooring.dev/detach-requested-at"

        async def refusing(disk: str, node: str) -> None:
            live = await desk.api.get(VolumeAttachment, "va")
            both = live.metadata.annotations[noted] + ",2030-01-01T00:00:00.000000Z"
            await desk.api.patch(VolumeAttachment, "va", {"metadata": {"annotations": {noted: both}}})
            raise VolumeInUse("d", "n", ("elsewhere",))

        desk.array.detach = refusing
        with pytest.raises(VolumeInUse):
            await reconciled(desk, desk.make(AttacherController, plugins=desk.plugins()))
        left = await desk.api.get(VolumeAttachment, "va")
        assert left.metadata.annotations[noted] == "2030-01-01T00:00:00.000000Z"

    desk(scene)


def test_a_clock_that_was_ahead_does_not_keep_a_request_outstanding():
    ahead = requests.begun((), START + timedelta(hours=1), VALIDITY_S)
    noted = requests.begun((ahead,), START, VALIDITY_S).split(",")
    assert requests.outstanding_for(noted, START + timedelta(seconds=VALIDITY_S), VALIDITY_S) == 0


def test_a_request_that_was_refused_is_not_outstanding(desk: Desk, slow_storage: None):
    async def scene(desk: Any):
        await wanted(desk)
        desk.array.attached["d"] = "elsewhere"
        attacher = desk.make(AttacherController, plugins=desk.plugins())
        with pytest.raises(VolumeInUse):
            await reconciled(desk, attacher)
        live = await desk.api.get(VolumeAttachment, "va")
        assert "mooring.dev/attach-requested-at" not in live.metadata.annotations
        await desk.api.delete(VolumeAttachment, "va")
        assert await reconciled(desk, attacher) is None

    desk(scene)


async def attach_under(desk: Any, epoch: str) -> VolumeAttachment:
    await wanted(desk)
    lock = {"mooring.dev/attached-to": '{"epoch":2,"node":"other"}'}
    await desk.api.patch(PersistentVolume, "pv", {"metadata": {"annotations": lock}})
    stamp = {"metadata": {"annotations": {"mooring.dev/attach-epoch": epoch}}}
    await desk.api.patch(VolumeAttachment, "va", stamp)
    return await reconciled(desk, desk.make(AttacherController, plugins=desk.plugins()))


def test_a_record_of_an_older_epoch_than_the_locks_is_not_carried_out(desk: Desk):
    async def scene(desk: Any):
        with pytest.raises(LockNotHeld, match="another node was granted the volume since"):
            await attach_under(desk, "1")
        live = await desk.api.get(VolumeAttachment, "va")
        assert "another node" in live.status.attach_error.message
        assert desk.array.history == []

    desk(scene)


def test_a_record_of_the_locks_epoch_is_carried_out(desk: Desk):
    async def scene(desk: Any):
        assert (await attach_under(desk, "2")).status.attached

    desk(scene)


def test_the_slots_of_a_driver_are_handed_on_in_turn():
    woken: list[str] = []
    slots = Slots({"slow": 1}, woken.append)
    assert slots.take("slow", "a")
    assert not slots.take("slow", "b")
    assert not slots.take("slow", "b"), "it waits once"
    assert not slots.take("slow", "c")
    assert slots.take("fast", "d"), "another driver is not held up"
    slots.free("slow")
    assert woken == ["b"]
    assert slots.take("slow", "b")
    slots.free("slow")
    assert woken == ["b", "c"]


def test_a_slow_driver_has_no_more_requests_at_once_than_it_may(desk: Desk):
    async def scene(desk: Any):
        desk.array.attach_s = 5.0
        options = AttacherOptions(concurrency={"example.com/disk": 2}, verify_period_s=0)
        attacher = desk.make(AttacherController, plugins=desk.plugins(), options=options)
        for name in "abcde":
            desk.array.disks.add(name)
            source = {"flexVolume": {"driver": "example.com/disk", "options": {"disk": name}}}
            spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
            await desk.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
            annotations = {"mooring.dev/plugin": "example.com/disk", "mooring.dev/volume-name": name}
            metadata = {"name": name, "annotations": annotations}
            spec = {
                "attacher": "plugins.mooring.dev",
                "nodeName": "n",
                "source": {"persistentVolumeName": name},
            }
            await desk.api.create(VolumeAttachment, {"metadata": metadata, "spec": spec})
        running = asyncio.create_task(attacher.run())
        await asyncio.sleep(30)
        running.cancel()
        assert desk.array.busiest == 2
        assert len(desk.array.attached) == 5

    desk(scene)
