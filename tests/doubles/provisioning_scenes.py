"""What the provisioner finds on an API server: the claim c, the volume pv, the class disk."""

from __future__ import annotations

import asyncio
from typing import Any

from controller_stage import ControllerStage

from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.simulation.parts.array_plugin import DISK


async def released(
    stage: ControllerStage, uid: str = "gone", by: str = DISK, policy: str = "Delete", **source: Any
) -> Any:
    """A controller whose cache has a released volume, bound to the claim of that uid."""
    stage.array.disks.add("d")
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": policy,
        **(source or {"flexVolume": {"driver": DISK, "options": {"disk": "d"}}}),
        "claimRef": {"namespace": "default", "name": "c", "uid": uid},
    }
    metadata = {"name": "pv", "annotations": {"pv.kubernetes.io/provisioned-by": by} if by else {}}
    await stage.api.create(PersistentVolume, {"metadata": metadata, "spec": spec})
    status = {"status": {"phase": "Released"}}
    pv = await stage.api.patch(PersistentVolume, "pv", status, subresource="status")
    controller = stage.make(ProvisioningController, plugins=stage.plugins())
    controller.cache(PersistentVolume).accept(pv)
    return controller


async def waiting_claim(
    stage: ControllerStage, mode: str = "Immediate", **more: Any
) -> tuple[Any, PersistentVolumeClaim]:
    """A controller, and a claim for which the storage is to be asked."""
    body = {"metadata": {"name": "disk"}, "provisioner": DISK, "reclaimPolicy": "Delete"}
    body["volumeBindingMode"] = mode
    storage_class = await stage.api.create(StorageClass, body)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "resources": {"requests": {"storage": "1Gi"}},
        **more,
    }
    annotations = {"volume.kubernetes.io/storage-provisioner": DISK}
    metadata = {"name": "c", "annotations": annotations}
    claim = await stage.api.create(PersistentVolumeClaim, {"metadata": metadata, "spec": spec}, "default")
    controller = stage.make(ProvisioningController, plugins=stage.plugins())
    controller.cache(StorageClass).accept(storage_class)
    controller.cache(PersistentVolumeClaim).accept(claim)
    return controller, claim


def storage_says(controller: Any, error: Exception) -> None:
    """At each try."""

    class Refusing:
        async def provision(self) -> PersistentVolume:
            raise error

    (plugin,) = controller._plugins.plugins
    plugin.new_provisioner = lambda _: Refusing()


async def restarted(stage: ControllerStage) -> Any:
    """Another process, which goes on with what is begun."""
    controller = stage.make(ProvisioningController, plugins=stage.plugins())
    await stage.fill(controller, PersistentVolumeClaim, StorageClass)
    return controller


async def only_volume(stage: ControllerStage) -> PersistentVolume:
    (found,) = (await stage.api.list(PersistentVolume)).items
    return found


async def events(stage: ControllerStage, controller: Any) -> list[tuple[str, str]]:
    writing = asyncio.create_task(controller.recorder.run())
    await controller.recorder.flush()
    writing.cancel()
    return sorted((event.type, event.reason) for event in (await stage.api.list(Event)).items)
