"""A provisioner whose cache of claims is late: it shows a claim as begun that is done with, and gone."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from provisioning_scenes import only_volume, waiting_claim

from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.decide import BEGUN
from mooring.kube.client import WatchEvent
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.simulation.parts.array_plugin import DISK

CLAIM = ClaimKey("default/c")
HELD = {"metadata": {"finalizers": [BEGUN]}}


async def begun(stage: ControllerStage) -> Any:
    """A provisioner whose cache has the claim as begun: by this process, or by a former one."""
    controller, _ = await waiting_claim(stage)
    await stage.api.patch(PersistentVolumeClaim, "c", HELD, "default")
    await stage.fill(controller, PersistentVolumeClaim)
    return controller


async def its_own_end(stage: ControllerStage, controller: Any) -> None:
    """What it made was deleted again, of which the watch has told; not of the claim, which went with it."""
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    await stage.fill(controller, PersistentVolumeClaim)
    await controller.reconcile(CLAIM)
    made = await only_volume(stage)
    controller.cache(PersistentVolume).apply(WatchEvent("DELETED", made, "1000"))
    await stage.api.patch(PersistentVolume, made.name, {"metadata": {"finalizers": None}})
    await stage.api.delete(PersistentVolume, made.name)
    stage.array.disks.clear()


async def the_end_by_another(stage: ControllerStage, controller: Any) -> None:
    """The former leader finished."""
    del controller
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, "default")


async def another_in_its_place(stage: ControllerStage, controller: Any) -> None:
    await the_end_by_another(stage, controller)
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}
    spec |= {"resources": {"requests": {"storage": "1Gi"}}}
    await stage.api.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": spec}, "default")


async def let_go(stage: ControllerStage, controller: Any) -> None:
    """It is there still; nothing holds it any more."""
    del controller
    await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, "default")


@pytest.mark.parametrize("end", [its_own_end, the_end_by_another, another_in_its_place, let_go])
def test_the_storage_is_not_asked_for_a_claim_that_nothing_holds_any_more(play: Play, end: Any):
    """An answer that is lost then would leave a disk behind that nothing names (74756 of the swarm)."""

    async def story(stage: ControllerStage):
        controller = await begun(stage)
        await end(stage, controller)
        with pytest.raises((NotFound, Conflict)):
            await controller.reconcile(CLAIM)
        assert stage.array.disks == set()

    play(story)


def test_a_claim_that_is_begun_and_has_changed_since_has_its_volume_made(play: Play):
    """However late the cache is: what is there for it is to be found."""

    async def story(stage: ControllerStage):
        controller = await begun(stage)
        labels = {"metadata": {"labels": {"since": "then"}}}
        await stage.api.patch(PersistentVolumeClaim, "c", labels, "default")
        await controller.reconcile(CLAIM)
        assert {(await only_volume(stage)).name} == stage.array.disks
        assert BEGUN not in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers

    play(story)


def test_a_claim_that_is_new_is_not_read_once_more(play: Play):
    async def story(stage: ControllerStage):
        controller = (await waiting_claim(stage))[0]
        before = len(stage.wire.sent)
        await controller.reconcile(CLAIM)
        read = [each for each in stage.wire.sent[before:] if "GET" in each]
        assert not any("persistentvolumeclaims" in each for each in read)

    play(story)


def test_a_provisioner_that_starts_goes_on_with_what_is_begun(play: Play):
    async def story(stage: ControllerStage):
        await begun(stage)
        controller = stage.make(ProvisioningController, plugins=stage.plugins())
        await stage.fill(controller, PersistentVolumeClaim, StorageClass)
        await controller.reconcile(CLAIM)
        assert len(stage.array.disks) == 1

    play(story)


async def another_class(stage: ControllerStage) -> None:
    """Parameters of a class are changed by making it anew."""
    await stage.api.delete(StorageClass, "disk")
    kept = {"metadata": {"name": "disk"}, "provisioner": DISK, "reclaimPolicy": "Retain"}
    await stage.api.create(StorageClass, kept)


def test_no_volume_is_made_by_a_former_class(play: Play):
    """It would have what a user has changed, and go with its claim, say, for good."""

    async def story(stage: ControllerStage):
        controller = (await waiting_claim(stage))[0]
        await another_class(stage)
        with pytest.raises(Conflict):
            await controller.reconcile(CLAIM)
        assert stage.array.disks == set()
        await controller.reconcile(CLAIM)
        assert (await only_volume(stage)).spec.persistent_volume_reclaim_policy == "Retain"

    play(story)


def test_no_volume_is_made_by_a_class_that_is_gone(play: Play):
    async def story(stage: ControllerStage):
        controller = (await waiting_claim(stage))[0]
        await stage.api.delete(StorageClass, "disk")
        with pytest.raises(Conflict):
            await controller.reconcile(CLAIM)
        assert stage.array.disks == set()

    play(story)
