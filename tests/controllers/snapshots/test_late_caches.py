"""A snapshotter that has stood by, and whose cache is late: it shows a content that is done with and gone."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import DriverStage, Play
from played_driver import NAME

from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.controllers.snapshots.names import BEING_CREATED, CONTENT_FINALIZER
from mooring.controllers.snapshots.snapshotter import SnapshotterController
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.snapshots import BEING_DELETED, VolumeSnapshotContent

BODY = {
    "metadata": {
        "name": "content",
        "finalizers": [CONTENT_FINALIZER],
        "annotations": {BEING_CREATED: "yes"},
    },
    "spec": {
        "driver": NAME,
        "deletionPolicy": "Delete",
        "source": {"volumeHandle": "v"},
        "volumeSnapshotRef": {"namespace": "default", "name": "s", "uid": "u"},
    },
}


async def asked_before(stage: DriverStage) -> Any:
    """A snapshotter whose cache has a content for which the former one has asked the storage."""
    for body in DEFINITIONS:
        await stage.api.create(CustomResourceDefinition, body)
    await stage.api.create(VolumeSnapshotContent, BODY)
    controller = stage.make(SnapshotterController, plugins=stage.driver())
    await stage.fill(controller, VolumeSnapshotContent)
    return controller


async def gone(stage: DriverStage) -> None:
    """The former one has finished, and the snapshot was deleted."""
    await let_go(stage)
    await stage.api.delete(VolumeSnapshotContent, "content")


async def another_in_its_place(stage: DriverStage) -> None:
    await gone(stage)
    await stage.api.create(VolumeSnapshotContent, BODY)


async def let_go(stage: DriverStage) -> None:
    await stage.api.patch(VolumeSnapshotContent, "content", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("end", [gone, another_in_its_place, let_go])
def test_the_storage_is_not_asked_for_a_content_that_nothing_holds_any_more(play: Play, end: Any):
    """The snapshot would be left behind: nothing names it."""

    async def story(stage: DriverStage):
        controller = await asked_before(stage)
        await end(stage)
        with pytest.raises((NotFound, Conflict)):
            await controller.reconcile("content")
        assert stage.storage.methods() == []

    play(story, stage=DriverStage)


def test_a_snapshotter_goes_on_with_what_a_former_one_has_begun(play: Play):
    async def story(stage: DriverStage):
        controller = await asked_before(stage)
        await controller.reconcile("content")
        assert stage.storage.methods() == ["CreateSnapshot"]

    play(story, stage=DriverStage)


def test_a_snapshot_that_is_to_be_kept_by_now_is_not_deleted(play: Play):
    """An administrator has saved it, after its VolumeSnapshot was deleted."""

    async def story(stage: DriverStage):
        controller = await asked_before(stage)
        await controller.reconcile("content")
        gone = {"metadata": {"annotations": {BEING_DELETED: "yes"}}}
        await stage.api.patch(VolumeSnapshotContent, "content", gone)
        await stage.api.delete(VolumeSnapshotContent, "content")
        await stage.fill(controller, VolumeSnapshotContent)
        kept = {"spec": {"deletionPolicy": "Retain"}}
        await stage.api.patch(VolumeSnapshotContent, "content", kept)
        with pytest.raises(Conflict):
            await controller.reconcile("content")
        await controller.reconcile("content")
        assert await stage.api.find(VolumeSnapshotContent, "content") is None
        assert stage.storage.methods() == ["CreateSnapshot"]

    play(story, stage=DriverStage)
