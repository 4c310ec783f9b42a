"""PersistentVolumes that are being deleted, with the finalizer of upstream's attacher."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import DriverStage, Play
from played_driver import NAME

from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.errors import Unreachable
from mooring.kube.keys import VolumeKey
from mooring.kube.objects import CSINode, PersistentVolume, VolumeAttachment
from mooring.simulation.parts.faulty_transport import request

FINALIZER = "external-attacher/played-example-com"


async def kept(stage: DriverStage, *finalizers: str) -> Any:
    """An attacher, and a PersistentVolume that is being deleted and that such finalizers keep."""
    source = {"csi": {"driver": NAME, "volumeHandle": "v"}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})
    await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": list(finalizers)}})
    return stage.make(AttacherController, plugins=stage.driver())


def test_upstreams_finalizer_goes_when_the_last_record_goes(play: Play):
    """The PersistentVolume itself does not change then."""

    async def story(stage: DriverStage) -> None:
        attacher = await kept(stage, FINALIZER)
        of_driver = {"drivers": [{"name": NAME, "nodeID": "i-1", "topologyKeys": None}]}
        await stage.api.create(CSINode, {"metadata": {"name": "n"}, "spec": of_driver})
        wish = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        await stage.api.create(VolumeAttachment, {"metadata": {"name": "va"}, "spec": wish})
        running = asyncio.create_task(attacher.run())
        await asyncio.sleep(5)
        await stage.api.delete(PersistentVolume, "pv")
        await asyncio.sleep(5)
        assert await stage.api.find(PersistentVolume, "pv") is not None
        await stage.api.delete(VolumeAttachment, "va")
        await asyncio.sleep(5)
        assert await stage.api.find(PersistentVolume, "pv") is None
        running.cancel()

    play(story, stage=DriverStage)


def test_finalizers_of_others_stay(play: Play):
    async def story(stage: DriverStage) -> None:
        attacher = await kept(stage, "example.com/hold", FINALIZER)
        await stage.api.delete(PersistentVolume, "pv")
        await attacher.reconcile(VolumeKey("pv"))
        pv = await stage.api.get(PersistentVolume, "pv")
        assert pv.metadata.finalizers == ("example.com/hold",)

    play(story, stage=DriverStage)


@pytest.mark.parametrize(
    ("finalizers", "deleted", "looked_at"),
    [((FINALIZER,), True, True), (("example.com/hold",), True, False), ((FINALIZER,), False, False)],
    ids=["kept by ours", "kept by another", "not being deleted"],
)
def test_a_persistent_volume_is_looked_at_that_is_being_deleted_and_kept_by_ours(
    play: Play, finalizers: tuple[str, ...], deleted: bool, looked_at: bool
):
    async def story(stage: DriverStage) -> None:
        attacher = await kept(stage, *finalizers)
        if deleted:
            await stage.api.delete(PersistentVolume, "pv")
        await stage.fill(attacher, PersistentVolume)
        assert (VolumeKey("pv") in attacher.queue) is looked_at

    play(story, stage=DriverStage)


def test_a_finalizer_that_could_not_be_removed_is_an_error(play: Play):
    """So that it is tried again: nothing has changed."""

    async def story(stage: DriverStage) -> None:
        attacher = await kept(stage, FINALIZER)
        await stage.api.delete(PersistentVolume, "pv")
        stage.wire.lose(request("PATCH", "persistentvolumes"))
        with pytest.raises(Unreachable):
            await attacher.reconcile(VolumeKey("pv"))

    play(story, stage=DriverStage)
