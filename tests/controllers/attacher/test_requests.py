"""A request that was not answered may still take effect: what that means for the
VolumeAttachment, over time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from controller_stage import ControllerStage, Play
from disk_record import before_the_answer, reconciled, slow_requests, struck, unanswered, wanted, wanted_again

from mooring.controllers.attachdetach.state import is_detached
from mooring.controllers.attacher import requests
from mooring.controllers.attacher.controller import AttacherController, AttacherOptions
from mooring.controllers.attacher.definitions import DEFINED_AGAIN_S, Definitions
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.writes import Writes
from mooring.kube.client import Client
from mooring.kube.controller import WALL_CLOCK_S
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import VolumeAttachmentStatus
from mooring.kube.transport import Request, Response
from mooring.volumes.errors import LockNotHeld, VolumeInUse

Patch = pytest.MonkeyPatch
START = datetime(2030, 1, 1, tzinfo=UTC)
VALIDITY_S = 100.0


def test_only_requests_within_their_validity_are_outstanding():
    assert requests.outstanding_for((0.0, 60.0), 90.0, VALIDITY_S) == 70
    assert requests.outstanding_for((0.0, 60.0), 161.0, VALIDITY_S) == 0
    assert requests.outstanding_for((0.0, 60.0), 60.0, 0.0) == 0, "requests that die with their sender"
    assert requests.outstanding_for((), 0.0, VALIDITY_S) == 0


def test_times_of_requests_are_told_apart_however_the_clock_was_set():
    first = requests.begun((), START)
    both = tuple(requests.begun((first,), START).split(","))
    assert both == (first, requests.begun((), START + timedelta(microseconds=1)))
    assert requests.without(both, both[1]) == first
    assert requests.without((first,), first) is None


def test_that_it_is_attached_answers_the_latest_attach_alone():
    """Of an earlier one nothing is known: it may be carried out after a detach."""
    for attached, left in ((False, ["a", "b"]), (True, ["a"])):
        record = VolumeAttachment(status=VolumeAttachmentStatus(attached=attached))
        assert requests.unanswered(["a", "b"], record) == left


async def test_a_request_is_as_old_as_it_is_known():
    ages, loop = RequestAges(), asyncio.get_running_loop()
    record = VolumeAttachment(
        metadata=ObjectMeta(uid="u", annotations={"mooring.dev/attach-requested-at": "a"})
    )
    ages.record_changed(None, record)
    began = loop.time()
    await asyncio.sleep(0.02)
    second = msgspec.structs.replace(
        record, metadata=ObjectMeta(uid="u", annotations={"mooring.dev/detach-requested-at": "b,a"})
    )
    ages.record_changed(record, second)
    since = ages.since(second, ["a", "b"])
    assert since[0] <= began < since[1]
    assert ages.still_valid(second, ["a", "b"], since[1] - since[0]) == ["b"]
    ages.record_changed(second, None)
    assert ages._since == {}


@pytest.fixture
def slow_storage(monkeypatch: Patch) -> None:
    """A storage that may carry requests out for VALIDITY_S after they were sent."""
    slow_requests(monkeypatch, VALIDITY_S)


async def late_attach(stage: ControllerStage) -> tuple[bool, bool]:
    """C15: an attach is not answered; the VolumeAttachment is deleted; then the attach takes effect."""
    await wanted(stage)
    attacher = stage.make(AttacherController, plugins=stage.plugins())
    late = unanswered(stage, "attach")
    with pytest.raises(TimeoutError):
        await reconciled(stage, attacher)
    await stage.api.delete(VolumeAttachment, "va")
    successor = stage.make(AttacherController, plugins=stage.plugins())
    await reconciled(stage, successor)  # the storage says "not attached"
    await late[0]()
    kept = await stage.api.find(VolumeAttachment, "va") is not None
    await asyncio.sleep(VALIDITY_S + 1)
    if kept:
        await reconciled(stage, successor)
    return kept, stage.array.attached != {}


def test_c15_a_late_attach_finds_its_record_still_there(play: Play, slow_storage: None):
    assert play(late_attach) == (True, False)


def test_c15_does_harm_if_nothing_counts_as_outstanding(play: Play, slow_storage: None, monkeypatch: Patch):
    monkeypatch.setattr(requests, "outstanding_for", lambda unanswered, now, validity_s: 0.0)
    assert play(late_attach) == (False, True)


@pytest.mark.parametrize(
    ("act", "between"), [("attach", (Definitions, "spec")), ("detach", (Writes, "annotate"))]
)
def test_a_request_is_outstanding_from_when_it_was_sent_and_not_from_when_that_was_intended(
    play: Play, slow_storage: None, monkeypatch: Patch, act: str, between: tuple[type[object], str]
):
    """Docs/protocol.md C15: between the two the PersistentVolume is read live, and the API server answers."""
    answer = getattr(*between)

    async def late_answer(*asked: Any, **how: Any) -> Any:
        answered = await answer(*asked, **how)
        await asyncio.sleep(20)
        return answered

    async def story(stage: ControllerStage) -> None:
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        if act == "detach":
            await reconciled(stage, attacher)
            await stage.api.delete(VolumeAttachment, "va")
        assert unanswered(stage, act) == []
        with monkeypatch.context() as slow, pytest.raises(TimeoutError):
            slow.setattr(*between, late_answer)
            await reconciled(stage, attacher)
        if act == "attach":
            await stage.api.delete(VolumeAttachment, "va")
        await asyncio.sleep(VALIDITY_S - 1)
        assert await reconciled(stage, attacher) is not None
        await asyncio.sleep(2)
        assert await reconciled(stage, attacher) is None

    play(story)


@pytest.mark.parametrize("act", ["attach", "detach"])
def test_a_request_that_another_attacher_withdraws_meanwhile_is_no_younger(
    play: Play, slow_storage: None, monkeypatch: Patch, act: str
):
    """Found by the simulation: for how long it counts was looked up first, and then it was not known any
    more."""
    whole = Definitions.validity_s

    async def story(stage: ControllerStage) -> None:
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        if act == "detach":
            await reconciled(stage, attacher)
            await asyncio.sleep(1)  # the attach and the detach are told apart by their times
            await stage.api.delete(VolumeAttachment, "va")
        unanswered(stage, act)
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        if act == "attach":
            await stage.api.delete(VolumeAttachment, "va")
        record = await reconciled(stage, attacher)  # the storage says "detached"
        assert record is not None
        await asyncio.sleep(VALIDITY_S - 10)

        async def withdrawn_meanwhile(*asked: Any) -> float:
            answer = await whole(*asked)
            patch = {"metadata": {"annotations": {f"mooring.dev/{act}-requested-at": None}}}
            attacher.cache(VolumeAttachment).accept(await stage.api.patch(VolumeAttachment, "va", patch))
            return answer

        monkeypatch.setattr(Definitions, "validity_s", withdrawn_meanwhile)
        assert 9 < await attacher._detaching.detach(record) <= 10

    play(story)


def test_a_detach_that_was_answered_is_not_outstanding_though_its_record_was_written_meanwhile(
    play: Play, slow_storage: None
):
    async def story(stage: ControllerStage) -> None:
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        await reconciled(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        label = {"metadata": {"labels": {"by": "another"}}}
        before_the_answer(stage, "detach", lambda: stage.api.patch(VolumeAttachment, "va", label))
        with pytest.raises(Conflict):
            await reconciled(stage, attacher)
        assert await reconciled(stage, attacher) is None

    play(story)


async def late_detach(stage: ControllerStage) -> tuple[bool, bool]:
    """C15: a detach is not answered, its repetition is; the volume is attached anew; then
    the first detach takes effect."""
    await wanted(stage)
    attacher = stage.make(AttacherController, plugins=stage.plugins())
    await reconciled(stage, attacher)
    await stage.api.delete(VolumeAttachment, "va")
    late = unanswered(stage, "detach")
    with pytest.raises(TimeoutError):
        await reconciled(stage, attacher)
    await reconciled(stage, attacher)
    kept = await stage.api.find(VolumeAttachment, "va") is not None
    if not kept:
        await wanted_again(stage)
        await reconciled(stage, attacher)
    await late[0]()
    return kept, await struck(stage)


def test_c15_a_late_detach_finds_the_volume_nowhere_else(play: Play, slow_storage: None):
    assert play(late_detach) == (True, False)


def test_c15_a_late_detach_does_harm_if_nothing_counts_as_outstanding(
    play: Play, slow_storage: None, monkeypatch: Patch
):
    monkeypatch.setattr(requests, "outstanding_for", lambda unanswered, now, validity_s: 0.0)
    assert play(late_detach) == (False, True)


def test_a_late_detach_finds_the_volume_nowhere_else_when_nothing_defines_it_any_more(
    play: Play, slow_storage: None
):
    """For how long it may come late its PersistentVolume would say, which is gone."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        kept = await detached_twice(stage)
        assert kept is not None and is_detached(kept)

    play(story)


def test_that_a_volume_is_defined_again_ends_the_wait_for_a_late_detach(play: Play, slow_storage: None):
    """Found by the simulation: ten minutes passed, where its storage says that half a minute is enough."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        volume = await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await detached_twice(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        working = asyncio.create_task(attacher.run())
        await asyncio.sleep(VALIDITY_S + 1)
        assert await stage.api.find(VolumeAttachment, "va") is not None
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        source = {"flexVolume": {"driver": volume.spec.flex_volume.driver, "options": {"disk": "d"}}}  # type: ignore[union-attr]
        await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec | source})
        await asyncio.sleep(DEFINED_AGAIN_S + VALIDITY_S)
        assert await stage.api.find(VolumeAttachment, "va") is None
        working.cancel()

    play(story)


def test_a_detach_that_was_answered_does_not_keep_later_ones_waiting(play: Play, slow_storage: None):
    """However often it is reconciled, the VolumeAttachment goes when its one unanswered
    request has expired."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        await reconciled(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        for _ in range(5):
            await reconciled(stage, attacher)
            await asyncio.sleep(VALIDITY_S / 4)
        assert await stage.api.find(VolumeAttachment, "va") is None

    play(story)


async def detached_twice(stage: ControllerStage) -> VolumeAttachment | None:
    """A detach is not answered, its repetition is."""
    await stage.api.delete(VolumeAttachment, "va")
    unanswered(stage, "detach")
    attacher = stage.make(AttacherController, plugins=stage.plugins())
    with pytest.raises(TimeoutError):
        await reconciled(stage, attacher)
    return await reconciled(stage, attacher)


def test_when_only_a_detach_may_come_late_the_record_says_that_others_may_have_the_volume(
    play: Play, slow_storage: None
):
    async def story(stage: ControllerStage):
        await wanted(stage)
        await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        kept = await detached_twice(stage)
        assert kept is not None and is_detached(kept)

    play(story)


def test_while_an_attach_may_come_late_nobody_else_may_have_the_volume(play: Play, slow_storage: None):
    async def story(stage: ControllerStage):
        await wanted(stage)
        unanswered(stage, "attach")
        with pytest.raises(TimeoutError):
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        kept = await detached_twice(stage)
        assert kept is not None and not is_detached(kept)

    play(story)


def test_a_clock_that_was_put_back_does_not_keep_an_attach_outstanding(play: Play, slow_storage: None):
    async def story(stage: ControllerStage):
        await wanted(stage)
        await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        kept = await detached_twice(stage)
        assert kept is not None and is_detached(kept)
        ahead = requests.begun((), stage.now() + timedelta(hours=1))
        patch = {"metadata": {"annotations": {"mooring.dev/attach-requested-at": f"{ahead},{ahead}"}}}
        await stage.api.patch(VolumeAttachment, "va", patch)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        await reconciled(stage, attacher)
        await asyncio.sleep(VALIDITY_S + 1)
        await reconciled(stage, attacher)
        assert await stage.api.find(VolumeAttachment, "va") is None

    play(story)


async def _with_a_clock_that_was_ahead(stage: ControllerStage, act: str, right_after_s: float) -> set[str]:
    """A request is not answered, and the volume is detached, while the attacher's clock is ahead; then it is
    set right, and is looked at. Returns which VolumeAttachments there are when the request has lost its
    validity."""
    true, ahead = stage.now, [timedelta(hours=1)]
    stage.now = lambda: true() + ahead[0]
    await wanted(stage)
    stage.array.detach_s = 10.0
    late = unanswered(stage, act)
    running = asyncio.create_task(stage.make(AttacherController, plugins=stage.plugins()).run())
    await asyncio.sleep(0.1 if act == "attach" else 5.0)  # an attach is asked for again after 0.5 s
    await stage.api.delete(VolumeAttachment, "va")
    await asyncio.sleep(right_after_s)
    ahead[0] = timedelta()
    await asyncio.sleep(WALL_CLOCK_S + VALIDITY_S + 2 * stage.array.detach_s)
    assert len(late) == 1
    running.cancel()
    return {each.name for each in (await stage.api.list(VolumeAttachment)).items}


@pytest.mark.parametrize("act", ["attach", "detach"])
@pytest.mark.parametrize("right_after_s", [5.0, 30.0], ids=["while it is asked", "when it has answered"])
def test_a_clock_that_is_set_right_does_not_keep_a_request_outstanding(
    play: Play, slow_storage: None, act: str, right_after_s: float
):
    """Found by the simulation: the request was an hour in the future, and nothing looked at it again for that
    hour and its validity."""

    async def story(stage: ControllerStage):
        assert await _with_a_clock_that_was_ahead(stage, act, right_after_s) == set()

    play(story)


@pytest.mark.parametrize("act", ["attach", "detach"])
def test_a_clock_that_is_set_forward_does_not_make_a_request_old(play: Play, slow_storage: None, act: str):
    """Found by the simulation: a request was an hour old at once, and took effect after the VolumeAttachment
    had gone."""

    async def story(stage: ControllerStage):
        true, behind = stage.now, [timedelta(hours=1)]
        stage.now = lambda: true() - behind[0]
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        if act == "detach":
            await reconciled(stage, attacher)
            await stage.api.delete(VolumeAttachment, "va")
        unanswered(stage, act)
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        behind[0] = timedelta()
        if act == "attach":
            await stage.api.delete(VolumeAttachment, "va")
        assert await reconciled(stage, attacher) is not None
        await asyncio.sleep(VALIDITY_S - 1)
        assert await reconciled(stage, attacher) is not None
        await asyncio.sleep(2)
        assert await reconciled(stage, attacher) is None

    play(story)


def test_while_an_attach_may_still_take_effect_the_storage_is_not_asked_to_detach_at_each_look(
    play: Play, monkeypatch: Patch
):
    slow_requests(monkeypatch, 600.0)

    async def story(stage: ControllerStage):
        await wanted(stage)
        late, asked, whole = unanswered(stage, "attach"), list[str](), stage.array.detach

        async def detach(disk: str, node: str) -> None:
            asked.append(disk)
            await whole(disk, node)

        stage.array.detach = detach
        running = asyncio.create_task(stage.make(AttacherController, plugins=stage.plugins()).run())
        await asyncio.sleep(0.2)
        await stage.api.delete(VolumeAttachment, "va")
        await asyncio.sleep(500)
        assert asked == ["d"]
        await late[0]()
        await asyncio.sleep(160)
        assert await stage.api.find(VolumeAttachment, "va") is None
        assert stage.array.attached == {}
        assert asked == ["d", "d"]
        running.cancel()

    play(story)


def test_an_attach_that_takes_effect_between_a_detach_and_its_answer_is_detached(
    play: Play, slow_storage: None
):
    """It may do so until the answer is there, though not any more by then."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        late, whole = unanswered(stage, "attach"), stage.array.detach

        async def detach(disk: str, node: str) -> None:
            await whole(disk, node)
            if late:
                await late.pop()()
                await asyncio.sleep(2)

        stage.array.detach = detach
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        await asyncio.sleep(VALIDITY_S - 1)
        await reconciled(stage, attacher)
        assert stage.array.attached == {"d": "n"}
        assert await stage.api.find(VolumeAttachment, "va") is not None
        await asyncio.sleep(2)
        await reconciled(stage, attacher)
        assert stage.array.attached == {}
        assert await stage.api.find(VolumeAttachment, "va") is None

    play(story)


def test_what_another_process_has_noted_meanwhile_is_not_taken_back_with_an_answered_request(
    play: Play, slow_storage: None
):
    """Two attachers for a moment: the refusal of one's request does not answer the other's."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        await stage.api.delete(VolumeAttachment, "va")
        noted = "mooring.dev/detach-requested-at"

        async def refusing(disk: str, node: str) -> None:
            live = await stage.api.get(VolumeAttachment, "va")
            both = live.metadata.annotations[noted] + ",2030-01-01T00:00:00.000000Z"
            await stage.api.patch(VolumeAttachment, "va", {"metadata": {"annotations": {noted: both}}})
            raise VolumeInUse("d", "n", ("elsewhere",))

        stage.array.detach = refusing
        with pytest.raises(VolumeInUse):
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        left = await stage.api.get(VolumeAttachment, "va")
        assert left.metadata.annotations[noted] == "2030-01-01T00:00:00.000000Z"

    play(story)


def test_a_request_that_was_refused_is_not_outstanding(play: Play, slow_storage: None):
    async def story(stage: ControllerStage):
        await wanted(stage)
        stage.array.attached["d"] = "elsewhere"
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        with pytest.raises(VolumeInUse):
            await reconciled(stage, attacher)
        live = await stage.api.get(VolumeAttachment, "va")
        assert "mooring.dev/attach-requested-at" not in live.metadata.annotations
        await stage.api.delete(VolumeAttachment, "va")
        assert await reconciled(stage, attacher) is None

    play(story)


async def attach_under(stage: ControllerStage, epoch: str | None) -> VolumeAttachment:
    await wanted(stage)
    lock = {"mooring.dev/attached-to": '{"epoch":2,"node":"other"}'}
    await stage.api.patch(PersistentVolume, "pv", {"metadata": {"annotations": lock}})
    stamp = {"metadata": {"annotations": {"mooring.dev/attach-epoch": epoch}}}
    await stage.api.patch(VolumeAttachment, "va", stamp)
    return await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))


def test_a_record_of_an_older_epoch_than_the_locks_is_not_carried_out(play: Play):
    async def story(stage: ControllerStage):
        with pytest.raises(LockNotHeld, match="another node was granted the volume since"):
            await attach_under(stage, "1")
        live = await stage.api.get(VolumeAttachment, "va")
        assert "another node" in live.status.attach_error.message
        assert stage.array.history == []

    play(story)


def test_a_record_of_a_controller_that_knows_no_locks_is_not_carried_out_and_says_how_to_mend_it(play: Play):
    async def story(stage: ControllerStage):
        with pytest.raises(LockNotHeld, match="mooring uninstall"):
            await attach_under(stage, None)
        live = await stage.api.get(VolumeAttachment, "va")
        assert "by another controller" in live.status.attach_error.message
        assert stage.array.history == []

    play(story)


def test_a_record_of_the_locks_epoch_is_carried_out(play: Play):
    async def story(stage: ControllerStage):
        assert (await attach_under(stage, "2")).status.attached

    play(story)


async def to_be_attached(stage: ControllerStage, name: str) -> None:
    stage.array.disks.add(name)
    source = {"flexVolume": {"driver": "example.com/disk", "options": {"disk": name}}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    await stage.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
    annotations = {"mooring.dev/plugin": "example.com/disk", "mooring.dev/volume-name": name}
    spec = {"attacher": "plugins.mooring.dev", "nodeName": "n", "source": {"persistentVolumeName": name}}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    await stage.api.create(VolumeAttachment, body)


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


def test_a_key_that_needs_its_slot_no_more_keeps_no_other_waiting():
    woken: list[str] = []
    slots = Slots({"slow": 1}, woken.append)
    assert [slots.take("slow", key) for key in "abc"] == [True, False, False]
    slots.free("slow")
    slots.pass_on("a")
    assert woken == ["b"]
    slots.pass_on("b")
    assert woken == ["b", "c"]
    assert slots.take("slow", "c")
    slots.pass_on("c")
    slots.free("slow")
    assert woken == ["b", "c"]


def test_a_volume_waits_for_its_slot_no_longer_when_the_one_before_it_is_wanted_no_more(play: Play):
    """Its VolumeAttachment, for which nothing was asked yet, was deleted while it waited."""

    async def story(stage: ControllerStage):
        stage.array.attach_s = 5.0
        options = AttacherOptions(concurrency={"example.com/disk": 1}, verify_period_s=0)
        attacher = stage.make(AttacherController, plugins=stage.plugins(), options=options)
        for name in "abc":
            await to_be_attached(stage, name)
        running = asyncio.create_task(attacher.run())
        await asyncio.sleep(2)
        await stage.api.delete(VolumeAttachment, "c")  # whose turn is next: "b" was woken, in vain, before
        await asyncio.sleep(30)
        assert stage.array.history == [("attach", "a", "n"), ("attach", "b", "n")]
        running.cancel()

    play(story)


def test_a_slow_driver_has_no_more_requests_at_once_than_it_may(play: Play):
    async def story(stage: ControllerStage):
        stage.array.attach_s = 5.0
        options = AttacherOptions(concurrency={"example.com/disk": 2}, verify_period_s=0)
        attacher = stage.make(AttacherController, plugins=stage.plugins(), options=options)
        for name in "abcde":
            await to_be_attached(stage, name)
        running = asyncio.create_task(attacher.run())
        await asyncio.sleep(30)
        running.cancel()
        assert stage.array.busiest == 2
        assert len(stage.array.attached) == 5

    play(story)


async def answered_late(stage: ControllerStage, meanwhile: Callable[[], Awaitable[None]]) -> VolumeAttachment:
    """An attach is carried out; before it is stored that it was, something happens to the
    VolumeAttachment."""
    await wanted(stage)
    before_the_answer(stage, "attach", meanwhile)
    await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
    return await stage.api.get(VolumeAttachment, "va")


def test_that_it_is_attached_is_stored_although_it_was_written_meanwhile(play: Play):
    async def story(stage: ControllerStage):
        async def meanwhile() -> None:
            await stage.api.patch(VolumeAttachment, "va", {"metadata": {"annotations": {"of": "another"}}})

        assert (await answered_late(stage, meanwhile)).status.attached

    play(story)


def test_the_detach_of_what_was_deleted_meanwhile_does_not_wait_for_an_attach_that_was_answered(
    play: Play, monkeypatch: Patch
):
    slow_requests(monkeypatch, VALIDITY_S)

    async def story(stage: ControllerStage):
        async def meanwhile() -> None:
            await stage.api.delete(VolumeAttachment, "va")

        await answered_late(stage, meanwhile)
        assert stage.array.attached == {"d": "n"}
        assert await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins())) is None
        assert stage.array.attached == {}

    play(story)


@pytest.mark.parametrize("validity_s", [0.0, VALIDITY_S])
def test_it_does_not_say_attached_once_another_attacher_has_detached_it(
    play: Play, monkeypatch: Patch, validity_s: float
):
    slow_requests(monkeypatch, validity_s)

    async def story(stage: ControllerStage):
        async def meanwhile() -> None:
            held = {"metadata": {"finalizers": ["mooring.dev/attacher", "example.com/held"]}}
            await stage.api.patch(VolumeAttachment, "va", held)
            await stage.api.delete(VolumeAttachment, "va")
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
            assert stage.array.attached == {}

        assert not (await answered_late(stage, meanwhile)).status.attached

    play(story)


def test_a_write_that_arrives_after_the_detach_does_not_say_attached(play: Play):
    """Its sender has long given it up: the network had it."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        sent: list[Request] = []

        class Late:
            async def send(self, request: Request) -> Response:
                if request.path.endswith("/status"):
                    sent.append(request)
                    raise Unreachable("no answer")
                return await stage.api.transport.send(request)

            async def close(self) -> None:
                """Nothing is held."""

        attacher = stage.make(AttacherController, Client(Late()), plugins=stage.plugins())
        with pytest.raises(Unreachable):
            await reconciled(stage, attacher)
        held = {"metadata": {"finalizers": ["mooring.dev/attacher", "example.com/held"]}}
        await stage.api.patch(VolumeAttachment, "va", held)
        await stage.api.delete(VolumeAttachment, "va")
        await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        for each in sent:
            await stage.api.transport.send(each)
        assert not (await stage.api.get(VolumeAttachment, "va")).status.attached

    play(story)
