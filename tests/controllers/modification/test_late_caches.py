"""A modifier of whose caches one is late. Some storages change a volume once in hours."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import Play
from played_driver import NAME
from tests.controllers.modification.test_controller import ModifierStage

from mooring.kube.errors import Conflict
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass


async def another_class(stage: ModifierStage) -> None:
    """Parameters of a class are changed by making it anew."""
    await stage.api.delete(VolumeAttributesClass, "gold")
    gold = {"metadata": {"name": "gold"}, "driverName": NAME, "parameters": {"iops": "10"}}
    await stage.api.create(VolumeAttributesClass, gold)


async def another_volume(stage: ModifierStage) -> None:
    """A user has restored it under its name."""
    former = await stage.api.get(PersistentVolume, "pv")
    await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
    await stage.api.delete(PersistentVolume, "pv")
    reference = {"namespace": "default", "name": "c", "uid": former.spec.claim_ref.uid}
    source = {"csi": {"driver": NAME, "volumeHandle": "w"}, "claimRef": reference}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})


async def another_wish(stage: ModifierStage) -> None:
    await stage.wants("silver")


@pytest.mark.parametrize("change", [another_class, another_volume, another_wish])
def test_the_storage_is_not_asked_by_what_was_before(play: Play, change: Any):
    async def story(stage: ModifierStage) -> None:
        await stage.set_up()
        await stage.step()
        await stage.fill(stage.controller, PersistentVolumeClaim, PersistentVolume)
        await change(stage)
        with pytest.raises(Conflict):
            await stage.controller.reconcile("default/c")
        assert stage.storage.attributes == {}

    play(story, stage=ModifierStage)


def test_a_claim_has_the_attributes_that_its_class_says_now(play: Play):
    """It would say for good that it has, and have those from before."""

    async def story(stage: ModifierStage) -> None:
        await stage.set_up()
        await stage.step()
        await another_class(stage)
        with pytest.raises(Conflict):
            await stage.step()
        await stage.step()
        assert stage.storage.attributes == {"v": {"iops": "10"}}

    play(story, stage=ModifierStage)
