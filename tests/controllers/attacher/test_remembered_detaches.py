"""The lease holder's attacher: the requests that it need not store, and what its successor assumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from disk_record import reconciled, slow_requests, struck, unanswered, wanted, wanted_again

from mooring.controllers.attachdetach.state import is_detached
from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.kube.client import Client, WatchEvent
from mooring.kube.errors import Conflict, NotFound, NotLeading, Unreachable
from mooring.kube.objects import VolumeAttachment
from mooring.kube.transport import Request, Response

Patch = pytest.MonkeyPatch
VALIDITY_S = 100.0


@pytest.fixture(autouse=True)
def slow_storage(monkeypatch: Patch) -> None:
    """A storage that may carry requests out for VALIDITY_S after they were sent."""
    slow_requests(monkeypatch, VALIDITY_S)


class Writes:
    """A transport that records writes, and that fails or loses answers on demand."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.written: list[bytes] = []
        self.fails: Callable[[Request], bool] = lambda request: False
        self.loses: Callable[[Request], bool] = lambda request: False

    async def send(self, request: Request) -> Response:
        if self.fails(request):
            raise Unreachable("no answer")
        if request.method != "GET":
            self.written.append(request.body)
        answer = await self._inner.send(request)
        if self.loses(request):
            raise Unreachable("no answer")
        return answer

    async def close(self) -> None:
        """Nothing is held."""


async def elected(
    stage: ControllerStage, *, begun: bool = True, leads: Callable[[], bool] = lambda: True
) -> Any:
    """An attacher that has taken the Lease, with the transport in `.wire`."""
    wire = Writes(stage.api.transport)
    made = stage.make(AttacherController, Client(wire, leads=leads), plugins=stage.plugins())
    made.wire = wire
    if begun:
        await made.started()
    return made


async def attached(stage: ControllerStage, attacher: Any) -> None:
    await wanted(stage)
    await reconciled(stage, attacher)
    assert stage.array.attached == {"d": "n"}


def test_a_detach_under_a_lease_is_one_write(play: Play):
    async def story(stage: ControllerStage):
        attacher = await elected(stage)
        await attached(stage, attacher)
        attacher.wire.written.clear()
        await stage.api.delete(VolumeAttachment, "va")
        assert await reconciled(stage, attacher) is None
        assert len(attacher.wire.written) == 1
        assert b"finalizers" in attacher.wire.written[0]

    play(story)


def test_without_a_lease_it_is_noted_first(play: Play):
    async def story(stage: ControllerStage):
        wire = Writes(stage.api.transport)
        attacher = stage.make(AttacherController, Client(wire), plugins=stage.plugins())
        await attached(stage, attacher)
        wire.written.clear()
        await stage.api.delete(VolumeAttachment, "va")
        assert await reconciled(stage, attacher) is None
        assert [b"detach-requested-at" in each for each in wire.written] == [True, False]

    play(story)


def test_what_was_not_answered_is_remembered_and_noted_when_the_storage_says_detached(play: Play):
    async def story(stage: ControllerStage):
        attacher = await elected(stage)
        await attached(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        late = unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        kept = await reconciled(stage, attacher)
        assert kept is not None and is_detached(kept)
        assert "mooring.dev/detach-requested-at" in kept.metadata.annotations, "a successor must wait for it"
        await late[0]()
        await asyncio.sleep(VALIDITY_S + 1)
        assert await reconciled(stage, attacher) is None

    play(story)


async def late_detach(stage: ControllerStage) -> tuple[bool, bool]:
    """A lease holder dies with an unanswered detach; its successor's detach is answered;
    then the first one takes effect."""
    former = await elected(stage)
    await attached(stage, former)
    await stage.api.delete(VolumeAttachment, "va")
    late = unanswered(stage, "detach")
    with pytest.raises(TimeoutError):
        await reconciled(stage, former)
    successor = await elected(stage)
    kept = await reconciled(stage, successor) is not None
    if not kept:
        await wanted_again(stage)
        await reconciled(stage, successor)
    await late[0]()
    return kept, await struck(stage)


def test_a_successor_takes_each_deletion_under_way_as_asked_for(play: Play):
    assert play(late_detach) == (True, False)


def test_it_does_harm_if_a_successor_does_not(play: Play, monkeypatch: Patch):
    async def nothing(self: RememberedDetaches) -> None:
        self._since = 1

    monkeypatch.setattr(RememberedDetaches, "begin", nothing)
    assert play(late_detach) == (False, True)


def test_what_the_former_holder_has_noted_as_detached_is_waited_for_since_it_is_seen(play: Play):
    async def story(stage: ControllerStage):
        former = await elected(stage)
        await attached(stage, former)
        await stage.api.delete(VolumeAttachment, "va")
        unanswered(stage, "detach")
        with pytest.raises(TimeoutError):
            await reconciled(stage, former)
        await reconciled(stage, former)
        await asyncio.sleep(VALIDITY_S - 10)
        successor = await elected(stage)
        assert await reconciled(stage, successor) is not None
        await asyncio.sleep(VALIDITY_S - 1)
        assert await reconciled(stage, successor) is not None
        await asyncio.sleep(2)
        assert await reconciled(stage, successor) is None

    play(story)


def test_nothing_is_asked_about_a_record_that_only_a_late_cache_has(play: Play):
    """The former lease holder has released it, and the volume is attached there anew."""

    async def story(stage: ControllerStage):
        former = await elected(stage)
        await attached(stage, former)
        await stage.api.delete(VolumeAttachment, "va")
        stale = await stage.api.get(VolumeAttachment, "va")
        assert await reconciled(stage, former) is None
        await wanted_again(stage)
        await reconciled(stage, former)
        successor = await elected(stage)
        successor.cache(VolumeAttachment).accept(stale)
        with pytest.raises(Conflict):
            await successor.reconcile("va")
        assert stage.array.attached == {"d": "n"}

    play(story)


def test_nothing_is_asked_again_when_it_is_not_known_whether_the_record_has_gone(play: Play):
    """The answer to removing the finalizer is lost, and the cache is stale."""

    async def story(stage: ControllerStage):
        attacher = await elected(stage)
        await attached(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        stale = await stage.api.get(VolumeAttachment, "va")
        attacher.cache(VolumeAttachment).accept(stale)
        attacher.wire.loses = lambda request: request.method != "GET"
        with pytest.raises(Unreachable):
            await attacher.reconcile("va")
        assert await stage.api.find(VolumeAttachment, "va") is None
        attacher.wire.loses = lambda request: False
        asked = unanswered(stage, "detach")
        with pytest.raises(NotFound):
            await attacher.reconcile("va")
        assert not asked

    play(story)


def test_nothing_is_detached_before_it_is_known_what_is_under_way(play: Play):
    async def story(stage: ControllerStage):
        await attached(stage, await elected(stage))
        await stage.api.delete(VolumeAttachment, "va")
        successor = await elected(stage, begun=False)
        successor.wire.fails = lambda request: request.method == "GET" and not request.path.endswith("/va")
        with pytest.raises(Unreachable):
            await reconciled(stage, successor)
        assert stage.array.attached == {"d": "n"}
        successor.wire.fails = lambda request: False
        kept = await reconciled(stage, successor)
        assert kept is not None and is_detached(kept)

    play(story)


@pytest.mark.parametrize("deleted", [False, True])
def test_who_leads_no_more_asks_nothing_of_the_storage(play: Play, deleted: bool):
    async def story(stage: ControllerStage):
        leading = True
        attacher = await elected(stage, leads=lambda: leading)
        await (attached(stage, attacher) if deleted else wanted(stage))
        before = dict(stage.array.attached)
        if deleted:
            await stage.api.delete(VolumeAttachment, "va")
        leading = False
        with pytest.raises(NotLeading):
            await reconciled(stage, attacher)
        assert stage.array.attached == before

    play(story)


def test_what_has_gone_before_it_could_be_let_go_is_not_remembered(play: Play):
    """A former lease holder's write, or a user's, took the finalizer off while the storage detached."""

    async def story(stage: ControllerStage):
        attacher = await elected(stage)
        await attached(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        whole = stage.array.detach

        async def detach(disk: str, node: str) -> None:
            await whole(disk, node)
            last = await stage.api.patch(VolumeAttachment, "va", {"metadata": {"finalizers": None}})
            attacher.cache(VolumeAttachment).apply(
                WatchEvent("DELETED", last, last.metadata.resource_version)
            )

        stage.array.detach = detach
        with pytest.raises(NotFound):
            await reconciled(stage, attacher)
        remembered = attacher._remembered
        assert (remembered._not_fresh, remembered._unanswered) == (set(), {})

    play(story)
