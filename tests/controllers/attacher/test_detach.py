"""How a detach is asked for: what is written around it, and when its VolumeAttachment is looked at again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from disk_record import reconciled, slow_requests, unanswered, wanted

from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.client import Client
from mooring.kube.errors import Unreachable
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.errors import DeviceStillInUse, VolumeError

REQUESTED = "mooring.dev/detach-requested-at"
VALIDITY_S = 100.0
RECORD = "/apis/storage.k8s.io/v1/volumeattachments/va"
leases = pytest.mark.parametrize("lease", [False, True], ids=["without a lease", "under a lease"])


@pytest.fixture(autouse=True)
def slow_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that may carry requests out for VALIDITY_S after they were sent."""
    slow_requests(monkeypatch, VALIDITY_S)


async def deleted(stage: ControllerStage, *, lease: bool = False, held: bool = False) -> Any:
    """An attacher, whose record of an attached volume is being deleted; `held` by another finalizer, too."""
    record = await wanted(stage)
    if held:
        await stage.api.revise(record, {"metadata": {"finalizers": ["example.com/hold"]}})
    client = Client(stage.wire, leads=(lambda: True) if lease else None)
    attacher = stage.make(AttacherController, client, plugins=stage.plugins())
    await attacher.started()
    await reconciled(stage, attacher)
    await stage.api.delete(VolumeAttachment, "va")
    attacher.cache(VolumeAttachment).accept(await stage.api.get(VolumeAttachment, "va"))
    return attacher


async def requests_of(stage: ControllerStage, attacher: Any) -> list[str]:
    """What one look at the record asks of the API server."""
    begun = len(stage.wire.sent)
    await attacher.reconcile("va")
    return [sent.partition("?")[0] for sent in stage.wire.sent[begun:]]


@leases
def test_a_detach_takes_one_write_and_one_before_it_where_no_lease_is_held(play: Play, lease: bool):
    """What a lease holder must know of deletions it has read at its start, and does not read again."""

    async def story(stage: ControllerStage):
        attacher = await deleted(stage, lease=lease)
        definition = "GET /api/v1/persistentvolumes/pv"
        noted = [f"PATCH {RECORD}"] if not lease else []
        assert await requests_of(stage, attacher) == [definition, *noted, f"PATCH {RECORD}"]
        assert not attacher.queue.is_delayed("va")

    play(story)


@leases
def test_while_a_late_request_is_waited_for_nothing_is_written(play: Play, lease: bool):
    async def story(stage: ControllerStage):
        attacher = await deleted(stage, lease=lease)
        unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await attacher.reconcile("va")
        await attacher.reconcile("va")
        assert await requests_of(stage, attacher) == ["GET /api/v1/persistentvolumes/pv"]

    play(story)


def test_where_a_request_dies_with_its_sender_none_is_noted(play: Play, monkeypatch: pytest.MonkeyPatch):
    slow_requests(monkeypatch, 0.0)

    async def story(stage: ControllerStage):
        attacher = await deleted(stage)
        definition = "GET /api/v1/persistentvolumes/pv"
        assert await requests_of(stage, attacher) == [definition, f"PATCH {RECORD}"]

    play(story)


@leases
def test_that_it_is_detached_is_an_error_where_it_cannot_be_noted(play: Play, lease: bool):
    """Other nodes wait for it."""

    async def story(stage: ControllerStage):
        attacher = await deleted(stage, lease=lease)
        unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await attacher.reconcile("va")
        stage.wire.lose(request("PATCH", "volumeattachments/va", '"mooring.dev/detached"'))
        with pytest.raises(Unreachable):
            await attacher.reconcile("va")

    play(story)


def test_under_a_lease_nothing_is_detached_while_the_deletions_under_way_cannot_be_read(play: Play):
    async def story(stage: ControllerStage):
        await deleted(stage)
        record = await stage.api.get(VolumeAttachment, "va")
        client = Client(stage.wire, leads=lambda: True)
        successor = stage.make(AttacherController, client, plugins=stage.plugins())
        successor.cache(VolumeAttachment).accept(record)
        stage.wire.lose(request("GET", "volumeattachments"))
        with pytest.raises(Unreachable):
            await successor.reconcile("va")
        assert stage.array.attached == {"d": "n"}

    play(story)


def test_under_a_lease_a_detach_is_noted_first_where_an_attach_may_come_late(play: Play):
    """The volume is detached once more then, and no successor may take that for the first time."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        client = Client(stage.wire, leads=lambda: True)
        attacher = stage.make(AttacherController, client, plugins=stage.plugins())
        await attacher.started()
        unanswered(stage, "attach")
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        assert REQUESTED in (await stage.api.get(VolumeAttachment, "va")).metadata.annotations

    play(story)


def test_under_a_lease_the_time_that_is_noted_late_is_that_of_the_request(play: Play):
    async def story(stage: ControllerStage):
        attacher = await deleted(stage, lease=True)
        await asyncio.sleep(60 - asyncio.get_running_loop().time())
        unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await attacher.reconcile("va")
        await asyncio.sleep(30)
        kept = await reconciled(stage, attacher)
        assert kept.metadata.annotations[REQUESTED] == "2030-01-01T00:01:00.000000Z"

    play(story)


@pytest.mark.parametrize(("defined", "left_s"), [(True, VALIDITY_S - 20), (False, 30.0)])
def test_a_record_is_looked_at_again_when_its_last_request_can_take_effect_no_more(
    play: Play, defined: bool, left_s: float
):
    """Where nothing says when that is, after half a minute: something may define the volume again."""

    async def story(stage: ControllerStage):
        attacher = await deleted(stage)
        unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await attacher.reconcile("va")
        if not defined:
            await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
            await stage.api.delete(PersistentVolume, "pv")
        await asyncio.sleep(20)
        record = attacher.cache(VolumeAttachment).get("va")
        assert await attacher._detaching.detach(record) == pytest.approx(left_s)

    play(story)


def test_a_request_of_its_own_is_as_old_as_its_note_whenever_the_watch_shows_it(play: Play):
    """Here with the deletion, while the request is under way."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())

        async def attach(disk: str, node: str) -> None:
            await asyncio.sleep(50)
            await stage.api.delete(VolumeAttachment, "va")
            attacher.cache(VolumeAttachment).accept(await stage.api.get(VolumeAttachment, "va"))
            raise TimeoutError("no answer")

        stage.array.attach = attach
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        assert await reconciled(stage, attacher) is not None
        await asyncio.sleep(51)
        assert await reconciled(stage, attacher) is None

    play(story)


@leases
def test_a_detach_that_was_refused_is_not_outstanding(play: Play, lease: bool):
    async def story(stage: ControllerStage):
        attacher = await deleted(stage, lease=lease)
        stage.array.mounted.add(("d", "n"))
        with pytest.raises(DeviceStillInUse):
            await attacher.reconcile("va")
        stage.array.mounted.clear()
        await attacher.reconcile("va")
        assert await stage.api.find(VolumeAttachment, "va") is None

    play(story)


def test_a_refusal_that_cannot_be_noted_is_an_error_of_the_api_and_not_told_as_the_storages(play: Play):
    """The request counts as outstanding still."""

    async def story(stage: ControllerStage):
        attacher = await deleted(stage)
        stage.array.mounted.add(("d", "n"))
        stage.wire.lose(request("PATCH", "volumeattachments/va", f'"{REQUESTED}":null'))
        with pytest.raises(Unreachable):
            await attacher.reconcile("va")
        record = await stage.api.get(VolumeAttachment, "va")
        assert REQUESTED in record.metadata.annotations
        assert record.status.detach_error is None

    play(story)


def test_what_could_not_be_asked_for_is_not_noted_as_a_request(play: Play):
    """Nothing says which volume it is."""

    async def story(stage: ControllerStage):
        attacher = await deleted(stage)
        nothing = {"metadata": {"annotations": {"mooring.dev/volume-name": None}}}
        attacher.cache(VolumeAttachment).accept(await stage.api.patch(VolumeAttachment, "va", nothing))
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        with pytest.raises(VolumeError, match="does not exist"):
            await attacher.reconcile("va")
        assert REQUESTED not in (await stage.api.get(VolumeAttachment, "va")).metadata.annotations

    play(story)


@leases
def test_a_record_that_could_not_be_let_go_goes_at_the_next_try(play: Play, lease: bool):
    """The request was answered: nothing has to be waited for."""

    async def story(stage: ControllerStage):
        attacher = await deleted(stage, lease=lease)
        stage.wire.lose(request("PATCH", "volumeattachments/va", '"finalizers":null'))
        with pytest.raises(Unreachable):
            await attacher.reconcile("va")
        await asyncio.sleep(VALIDITY_S if not lease else 0)  # noted before it was sent, it is waited for
        await attacher.reconcile("va")
        assert await stage.api.find(VolumeAttachment, "va") is None

    play(story)


@pytest.mark.parametrize("written", ['"mooring.dev/attach-requested-at":null', '"finalizers"'])
def test_a_record_that_another_finalizer_keeps_is_tried_again_when_it_could_not_be_let_go(
    play: Play, written: str
):
    async def story(stage: ControllerStage):
        attacher = await deleted(stage, held=True)
        stage.wire.lose(request("PATCH", "volumeattachments/va", written))
        with pytest.raises(Unreachable):
            await attacher.reconcile("va")

    play(story)


def test_nothing_is_remembered_of_what_is_gone(play: Play):
    """Let go while a late attach was waited for, and while a late detach was."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        unanswered(stage, "attach")
        running = asyncio.create_task(attacher.run())
        await asyncio.sleep(0.2)
        await stage.api.delete(VolumeAttachment, "va")
        await asyncio.sleep(1)
        assert attacher._detaching._answered
        await asyncio.sleep(VALIDITY_S)
        assert await stage.api.find(VolumeAttachment, "va") is None
        assert (attacher._detaching._let_go, attacher._detaching._answered) == (set(), set())
        assert attacher._remembered._not_fresh == set()
        running.cancel()

    play(story)
