"""A controller that was paused, and goes on after its Lease is over: what it has read and decided before is
of then, and its successor has acted since. It asks nothing of a storage any more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from controller_stage import ControllerStage, DriverStage, Play
from played_driver import NAME
from provisioning_scenes import released, waiting_claim

from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.expansion.controller import ExpansionController
from mooring.controllers.modification.controller import ModificationController
from mooring.controllers.snapshots.names import CONTENT_FINALIZER
from mooring.controllers.snapshots.snapshotter import SnapshotterController
from mooring.kube.client import Client
from mooring.kube.errors import NotLeading
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Secret,
    StorageClass,
    VolumeAttachment,
    VolumeAttributesClass,
)
from mooring.kube.objects.snapshots import BEING_DELETED, VolumeSnapshotContent
from mooring.volumes.matching import claim_reference
from mooring.volumes.names import CSI_PLUGIN, volume_attachment_name

RECORD = volume_attachment_name(CSI_PLUGIN, f"{NAME}^v", "n")
SIZE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SECRET_READ = "GET /api/v1/namespaces/default/secrets/keys"


def of_the_past(stage: ControllerStage) -> Client:
    """Its writes are let through here: what matters is what the storage is asked."""
    return Client(stage.wire, leads=lambda: False)


async def refused(controller: Any, key: Any) -> None:
    with pytest.raises(NotLeading):
        await controller.reconcile(key)


def test_a_former_leader_deletes_no_volume(play: Play):
    """An administrator may have saved it since (policy Retain)."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        controller._reclaimer._client = of_the_past(stage)
        await refused(controller, VolumeKey("pv"))
        assert stage.array.disks == {"d"}

    play(story)


def test_a_former_leader_makes_no_volume(play: Play):
    """The claim may have had one, and be gone with it: nothing would know of another."""

    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        controller.client = of_the_past(stage)
        await refused(controller, ClaimKey("default/c"))
        assert stage.array.disks == set()

    play(story)


async def bound(stage: DriverStage, controller: Any, **fields: Any) -> PersistentVolumeClaim:
    """The claim c with its volume pv, in the controller's caches."""
    body = {"metadata": {"name": "c"}, "spec": {**SIZE, "volumeName": "pv", **fields}}
    made = await stage.api.create(PersistentVolumeClaim, body, "default")
    status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    await stage.api.patch(PersistentVolumeClaim, "c", status, "default", subresource="status")
    await volume(stage, claimRef=claim_reference(made), storageClassName=fields.get("storageClassName", ""))
    await stage.fill(controller, PersistentVolumeClaim, PersistentVolume)
    return made


async def volume(stage: DriverStage, **fields: Any) -> None:
    source = {"driver": NAME, "volumeHandle": "v"} | fields.pop("csi", {})
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source, **fields}
    await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})


def test_a_former_leader_grows_no_volume(play: Play):
    """The claim may ask for less by now, and no volume shrinks."""

    async def story(stage: DriverStage):
        controller = stage.make(ExpansionController, of_the_past(stage), plugins=stage.driver())
        grows = {"metadata": {"name": "k"}, "provisioner": NAME, "allowVolumeExpansion": True}
        controller.cache(StorageClass).accept(await stage.api.create(StorageClass, grows))
        await bound(stage, controller, storageClassName="k")
        more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        asked = await stage.api.patch(PersistentVolumeClaim, "c", more, "default")
        controller.cache(PersistentVolumeClaim).accept(asked)
        await refused(controller, "default/c")
        assert stage.storage.methods() == []

    play(story, stage=DriverStage)


def test_a_former_leader_changes_no_volume(play: Play):
    """The claim may ask for another class by now, and have it from the successor: that would not be so."""

    async def story(stage: DriverStage):
        controller = stage.make(ModificationController, of_the_past(stage), plugins=stage.driver())
        gold = {"metadata": {"name": "gold"}, "driverName": NAME, "parameters": {"iops": "9"}}
        controller.cache(VolumeAttributesClass).accept(await stage.api.create(VolumeAttributesClass, gold))
        await bound(stage, controller, volumeAttributesClassName="gold")
        await controller.reconcile("default/c")
        await refused(controller, "default/c")
        assert stage.storage.methods() == []

    play(story, stage=DriverStage)


@pytest.mark.parametrize("going", [False, True])
def test_a_former_leader_takes_and_deletes_no_snapshot(play: Play, going: bool):
    """It may have been taken and be gone, or may be to be kept by now."""

    async def story(stage: DriverStage):
        controller = stage.make(SnapshotterController, of_the_past(stage), plugins=stage.driver())
        content = snapshot_content(going)

        async def answered(read: Any, *_: Any, **__: Any) -> Any:
            return read

        async def there(*_: Any, **__: Any) -> Any:
            return content

        controller.client.revise, controller.client.find = answered, there
        controller.cache(VolumeSnapshotContent).accept(content)
        await refused(controller, "content")
        assert stage.storage.methods() == []

    play(story, stage=DriverStage)


def snapshot_content(going: bool) -> VolumeSnapshotContent:
    spec = {
        "driver": NAME,
        "deletionPolicy": "Delete",
        "source": {"volumeHandle": "v"},
        "volumeSnapshotRef": {"namespace": "default", "name": "s", "uid": "u"},
    }
    metadata: dict[str, Any] = {
        "name": "content",
        "uid": "u1",
        "resourceVersion": "1",
        "finalizers": [CONTENT_FINALIZER],
    }
    if going:
        metadata |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "annotations": {BEING_DELETED: "yes"}}
    body = {"metadata": metadata, "spec": spec, "status": {"snapshotHandle": "h"} if going else {}}
    return msgspec.convert(body, VolumeSnapshotContent)


def test_who_loses_its_lease_while_the_secret_of_a_request_is_read_sends_none(play: Play):
    """Its successor counts the requests of its predecessors from when it took the Lease over: a later one
    could detach the volume from under its pod."""

    async def story(stage: DriverStage):
        client = Client(stage.wire, leads=lambda: SECRET_READ not in stage.wire.sent)
        controller = stage.make(AttacherController, client, plugins=stage.driver(client))
        await stage.api.create(Secret, {"metadata": {"name": "keys"}, "data": {}}, "default")
        spec = {"drivers": [{"name": NAME, "nodeID": "i-1", "topologyKeys": None}]}
        await stage.api.create(CSINode, {"metadata": {"name": "n"}, "spec": spec})
        keys = {"controllerPublishSecretRef": {"name": "keys", "namespace": "default"}}
        await volume(stage, csi=keys)
        wanted = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        record = {"metadata": {"name": RECORD}, "spec": wanted}
        controller.cache(VolumeAttachment).accept(await stage.api.create(VolumeAttachment, record))
        await refused(controller, RECORD)
        assert SECRET_READ in stage.wire.sent
        assert stage.storage.methods() == []

    play(story, stage=DriverStage)
