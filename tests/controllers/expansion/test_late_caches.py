"""A resizer of whose caches one is late: what has grown never shrinks."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import Play
from tests.controllers.expansion.test_controller import ResizerStage

from mooring.kube.errors import Conflict
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.volumes.errors import VolumeNotFound


async def less_is_wanted(stage: ResizerStage) -> None:
    """A user takes back a part of it (KEP-1790)."""
    await stage.ask("150Mi")


async def another_disk(stage: ResizerStage) -> None:
    """A user has restored the volume under its name."""
    former = await stage.api.get(PersistentVolume, "pv")
    await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
    await stage.api.delete(PersistentVolume, "pv")
    spec = {"capacity": {"storage": "100Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "k"}
    reference = {"namespace": "default", "name": "c", "uid": former.spec.claim_ref.uid}
    source = {"hostPath": {"path": "/srv/other"}, "claimRef": reference}
    await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})


@pytest.mark.parametrize("change", [less_is_wanted, another_disk])
def test_no_disk_grows_by_what_was_before(play: Play, change: Any):
    async def story(stage: ResizerStage) -> None:
        await stage.set_up()
        await stage.ask("950Mi")
        stage.plugin.failure = VolumeNotFound("not now")
        with pytest.raises(VolumeNotFound):
            await stage.step()
        await stage.fill(stage.controller, PersistentVolumeClaim, PersistentVolume)
        stage.plugin.asked.clear()
        await change(stage)
        with pytest.raises(Conflict):
            await stage.controller.reconcile("default/c")
        assert stage.plugin.asked == []

    play(story, stage=ResizerStage)
