"""Data is destroyed on live reads only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_double import DISK

from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, VolumeAttachment

Desk = Callable[[Any], Any]


async def released(desk: Any, uid: str = "gone") -> Any:
    """A controller whose cache has a released volume of policy Delete, bound to the claim of that uid."""
    desk.array.disks.add("d")
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "flexVolume": {"driver": DISK, "options": {"disk": "d"}},
        "claimRef": {"namespace": "default", "name": "c", "uid": uid},
    }
    metadata = {"name": "pv", "annotations": {"pv.kubernetes.io/provisioned-by": DISK}}
    await desk.api.create(PersistentVolume, {"metadata": metadata, "spec": spec})
    status = {"status": {"phase": "Released"}}
    pv = await desk.api.patch(PersistentVolume, "pv", status, subresource="status")
    controller = desk.make(ProvisioningController, plugins=desk.plugins())
    controller._volumes.accept(pv)
    return controller


def test_a_released_volume_goes_first_from_the_storage_then_from_the_api(desk: Desk):
    async def scene(desk: Any):
        controller = await released(desk)
        await controller.reconcile("volume:pv")
        assert desk.array.disks == set()
        pv = await desk.api.find(PersistentVolume, "pv")
        assert pv is None or pv.deleting, "only its protection is left"

    desk(scene)


def test_a_volume_whose_claim_lives_is_not_deleted_whatever_its_phase_says(desk: Desk):
    async def scene(desk: Any):
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = await desk.api.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": claim}, "default")
        controller = await released(desk, made.uid)
        await controller.reconcile("volume:pv")
        assert desk.array.disks == {"d"}

    desk(scene)


def test_a_volume_that_something_attaches_is_not_deleted_although_the_cache_does_not_know(desk: Desk):
    async def scene(desk: Any):
        controller = await released(desk)
        spec = {"attacher": "plugins.mooring.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        await desk.api.create(VolumeAttachment, {"metadata": {"name": "va"}, "spec": spec})
        await controller.reconcile("volume:pv")
        assert desk.array.disks == {"d"}
        await desk.api.delete(VolumeAttachment, "va")
        await controller.reconcile("volume:pv")
        assert desk.array.disks == set()

    desk(scene)
