"""Two snapshotters: one whose last write is still on its way when its lease is over, and its successor, which
goes on with what is begun. No snapshot is left behind, of which nothing is known."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from controller_stage import DriverStage, Play
from played_driver import NAME

from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.controllers.snapshots.names import BEING_CREATED, CONTENT_FINALIZER
from mooring.controllers.snapshots.snapshotter import SnapshotterController
from mooring.csi.errors import Code
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.snapshots import BEING_DELETED, VolumeSnapshotContent
from mooring.simulation.parts.faulty_transport import request

BODY = {
    "metadata": {"name": "content", "finalizers": [CONTENT_FINALIZER]},
    "spec": {
        "driver": NAME,
        "deletionPolicy": "Delete",
        "source": {"volumeHandle": "v"},
        "volumeSnapshotRef": {"namespace": "default", "name": "s", "uid": "u"},
    },
}
REFUSED, LOST = Code.INVALID_ARGUMENT, Code.DEADLINE_EXCEEDED
ANSWERED = request("PATCH", "volumesnapshotcontents/content", f'"{BEING_CREATED}":null')
LET_GO = request("PATCH", "volumesnapshotcontents/content", '"finalizers":null')


async def begin(stage: DriverStage) -> Any:
    for body in DEFINITIONS:
        await stage.api.create(CustomResourceDefinition, body)
    await stage.api.create(VolumeSnapshotContent, BODY)
    return await another(stage)


async def another(stage: DriverStage) -> Any:
    controller = stage.make(SnapshotterController, plugins=stage.driver())
    await stage.fill(controller, VolumeSnapshotContent)
    return controller


async def tries(stage: DriverStage, controller: Any, *errors: Code, after: bool = False) -> None:
    """`after`: the storage has done it."""
    failing = stage.storage.failing["CreateSnapshot"]
    failing.errors, failing.after = [*errors], after
    with suppress(Exception):
        await controller.reconcile("content")


async def now(stage: DriverStage) -> VolumeSnapshotContent:
    return await stage.api.get(VolumeSnapshotContent, "content")


async def ends(stage: DriverStage) -> None:
    """Its VolumeSnapshot is deleted; a snapshotter lets the content go."""
    gone = {"metadata": {"annotations": {BEING_DELETED: "yes"}}}
    await stage.api.patch(VolumeSnapshotContent, "content", gone)
    await stage.api.delete(VolumeSnapshotContent, "content")
    await (await another(stage)).reconcile("content")
    assert (await stage.api.list(VolumeSnapshotContent)).items == []


def test_what_was_refused_before_does_not_count_as_the_answer_of_what_a_successor_has_asked(play: Play):
    async def story(stage: DriverStage):
        former = await begin(stage)
        on_its_way = stage.wire.hold(ANSWERED)
        refused = asyncio.create_task(tries(stage, former, REFUSED))
        await on_its_way.arrived.wait()
        await tries(stage, await another(stage), LOST, after=True)
        on_its_way.release()
        await refused
        assert BEING_CREATED in (await now(stage)).metadata.annotations
        assert len(stage.storage.snapshots) == 1
        await ends(stage)
        assert stage.storage.snapshots == {}

    play(story, stage=DriverStage)


def test_an_answer_of_its_own_that_comes_late_is_not_that_of_the_next_request(play: Play):
    async def story(stage: DriverStage):
        former = await begin(stage)
        late = stage.wire.late(ANSWERED)
        await tries(stage, former, REFUSED)
        await tries(stage, former, LOST, after=True)
        await late.deliver()
        await ends(stage)
        assert stage.storage.snapshots == {}

    play(story, stage=DriverStage)


def test_a_snapshotter_whose_cache_is_late_marks_what_its_predecessor_has_said_to_be_answered(play: Play):
    async def story(stage: DriverStage):
        former = await begin(stage)
        on_its_way = stage.wire.hold(ANSWERED)
        refused = asyncio.create_task(tries(stage, former, REFUSED))
        await on_its_way.arrived.wait()
        successor = await another(stage)  # its cache shows the mark
        on_its_way.release()
        await refused
        await tries(stage, successor, LOST, after=True)
        await ends(stage)
        assert stage.storage.snapshots == {}

    play(story, stage=DriverStage)


def test_a_content_is_not_let_go_for_which_a_successor_asks_anew(play: Play):
    """The former one has deleted the snapshot, of which the cache of its successor shows nothing yet."""

    async def story(stage: DriverStage):
        former = await begin(stage)
        await tries(stage, former, LOST, after=True)
        successor = await another(stage)
        gone = {"metadata": {"annotations": {BEING_DELETED: "yes"}}}
        await stage.api.patch(VolumeSnapshotContent, "content", gone)
        await stage.api.delete(VolumeSnapshotContent, "content")
        await stage.fill(former, VolumeSnapshotContent)
        on_its_way = stage.wire.hold(LET_GO)
        letting_go = asyncio.create_task(former.reconcile("content"))
        await on_its_way.arrived.wait()
        assert stage.storage.snapshots == {}
        stage.storage.failing["CreateSnapshot"].delay_s = 1.0
        asking = asyncio.create_task(tries(stage, successor))
        await asyncio.sleep(0.5)
        assert stage.storage.methods()[-1] == "CreateSnapshot"
        on_its_way.release()
        with pytest.raises(Conflict):
            await letting_go
        await asking
        assert stage.storage.snapshots == {}
        assert (await stage.api.list(VolumeSnapshotContent)).items == []

    play(story, stage=DriverStage)


def test_each_snapshotter_writes_its_intent_once(play: Play):
    """However often it asks whether the snapshot is ready."""

    async def story(stage: DriverStage):
        await tries(stage, await begin(stage), LOST)
        successor = await another(stage)
        await tries(stage, successor, LOST)
        marked = (await now(stage)).metadata.annotations
        await tries(stage, successor, LOST)
        assert (await now(stage)).metadata.annotations == marked

    play(story, stage=DriverStage)


def test_an_intent_whose_answer_was_lost_is_written_again(play: Play):
    async def story(stage: DriverStage):
        await tries(stage, await begin(stage), LOST)
        successor = await another(stage)
        stage.wire.unanswered(request("PATCH", "volumesnapshotcontents/content", BEING_CREATED))
        with pytest.raises(Unreachable):
            await successor.reconcile("content")
        marked = (await now(stage)).metadata.annotations
        await tries(stage, successor, LOST)
        assert (await now(stage)).metadata.annotations != marked

    play(story, stage=DriverStage)


def test_an_error_that_comes_late_is_not_that_of_a_snapshot_which_is_ready(play: Play):
    """Nothing would take it off any more."""

    async def story(stage: DriverStage):
        former = await begin(stage)
        late = stage.wire.late(request("PATCH", "volumesnapshotcontents/content/status", '"error":{'))
        await tries(stage, former, REFUSED)
        for _ in range(2):  # it is not ready at once
            await (await another(stage)).reconcile("content")
        await late.deliver()
        status = (await now(stage)).status
        assert (status.ready_to_use, status.error) == (True, None)

    play(story, stage=DriverStage)
