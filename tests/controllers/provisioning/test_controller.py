"""Data is destroyed after live reads only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from provisioning_scenes import events, only_volume, released, waiting_claim

from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.decide import BEGUN, finalizer_of
from mooring.kube.client import WatchEvent
from mooring.kube.errors import NotFound, Unreachable
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from mooring.simulation.checks.memory import remembered
from mooring.simulation.parts.array_plugin import DISK
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes import scrub
from mooring.volumes.errors import InvalidSpec, NodeUnsuited
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.matching import SELECTED_NODE
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins import hostpath


def test_a_released_volume_goes_first_from_the_storage_then_from_the_api(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == set()
        pv = await stage.api.find(PersistentVolume, "pv")
        assert pv is None or pv.deleting, "only its protection is left"

    play(story)


@pytest.mark.parametrize("phase", ["Bound", "Available"])
def test_a_volume_that_is_not_released_any_more_is_kept(play: Play, phase: str):
    """A user gave it to another claim, and the cache does not show that yet."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        await stage.api.patch(PersistentVolume, "pv", {"status": {"phase": phase}}, subresource="status")
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == {"d"}

    play(story)


def test_a_disk_is_deleted_once_though_its_volume_stays_for_a_while(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        asked: list[str] = []
        stage.array.journal = lambda actor, kind, **fields: asked.append(kind)
        stage.wire.lose(lambda request: request.method == "DELETE")
        with pytest.raises(Unreachable):
            await controller.reconcile(VolumeKey("pv"))
        await controller.reconcile(VolumeKey("pv"))
        pv = await stage.api.get(PersistentVolume, "pv")
        assert pv.deleting, "its protection is left"
        controller.cache(PersistentVolume).accept(pv)
        sent = len(stage.wire.sent)
        await controller.reconcile(VolumeKey("pv"))
        assert asked.count("truth.deleting") == 1
        assert len(stage.wire.sent) == sent, "nothing is left to do"

    play(story)


def test_a_volume_to_be_retained_goes_from_the_api_and_its_disk_stays(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        change = {
            "metadata": {"finalizers": [finalizer_of(DISK)]},
            "spec": {"persistentVolumeReclaimPolicy": "Retain"},
        }
        await stage.api.patch(PersistentVolume, "pv", change)
        await stage.api.delete(PersistentVolume, "pv")
        pv = await stage.api.get(PersistentVolume, "pv")
        controller.cache(PersistentVolume).accept(pv)
        await controller.reconcile(VolumeKey("pv"))
        assert await stage.api.find(PersistentVolume, "pv") is None
        assert stage.array.disks == {"d"}

    play(story)


def test_a_volume_whose_claim_lives_is_not_deleted_whatever_its_phase_says(play: Play):
    async def story(stage: ControllerStage):
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = await stage.api.create(
            PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": claim}, "default"
        )
        controller = await released(stage, made.uid)
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == {"d"}

    play(story)


def test_a_volume_whose_claim_has_another_one_is_deleted(play: Play):
    async def story(stage: ControllerStage):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        body = {"metadata": {"name": "c"}, "spec": {**spec, "volumeName": "other"}}
        made = await stage.api.create(PersistentVolumeClaim, body, "default")
        controller = await released(stage, made.uid)
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == set()

    play(story)


def test_a_volume_that_an_administrator_made_is_deleted_unless_another_one_has_the_same_disk(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage, by="")
        pv = await stage.api.get(PersistentVolume, "pv")
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "flexVolume": {"driver": DISK, "options": {"disk": "d"}},
        }
        await stage.api.create(PersistentVolume, {"metadata": {"name": "twin"}, "spec": spec})
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == {"d"}
        assert await events(stage, controller) == [("Normal", "VolumeDelete")]
        await stage.api.patch(PersistentVolume, "twin", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "twin")
        await controller.reconcile(VolumeKey(pv.name))
        assert stage.array.disks == set()

    play(story)


def test_a_volume_that_an_administrator_made_is_deleted_beside_those_of_other_disks(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage, by="")
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        other = {"flexVolume": {"driver": DISK, "options": {"disk": "other"}}}
        await stage.api.create(PersistentVolume, {"metadata": {"name": "pv-2"}, "spec": {**spec, **other}})
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == set()

    play(story)


def test_a_process_for_one_driver_leaves_the_volumes_of_administrators_alone(play: Play):
    async def story(stage: ControllerStage):
        await released(stage, by="")
        controller = stage.make(ProvisioningController, plugins=stage.plugins(), static_volumes=False)
        await stage.fill(controller, PersistentVolume)
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == {"d"}

    play(story)


def test_a_volume_that_something_attaches_is_not_deleted_although_the_cache_does_not_know(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        spec = {"attacher": "plugins.mooring.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        await stage.api.create(VolumeAttachment, {"metadata": {"name": "va"}, "spec": spec})
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == {"d"}
        await stage.api.delete(VolumeAttachment, "va")
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == set()

    play(story)


def test_a_volume_that_is_known_to_be_attached_is_not_asked_about_until_it_is_detached(play: Play):
    """A live read lists the VolumeAttachments of the whole cluster: a thousand volumes must
    not do so each second."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        spec = {"attacher": "plugins.mooring.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        await stage.api.create(VolumeAttachment, {"metadata": {"name": "va"}, "spec": spec})
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        stage.wire.sent.clear()
        await asyncio.sleep(30)
        assert [each for each in stage.wire.sent if each.endswith("/volumeattachments")] == []
        assert stage.array.disks == {"d"}
        await stage.api.delete(VolumeAttachment, "va")
        await asyncio.sleep(1)
        assert stage.array.disks == set()
        running.cancel()

    play(story)


def a_pod(**volume: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec = {"nodeName": "n", "containers": [container], "volumes": [{"name": "v", **volume}]}
    return {"metadata": {"name": "pod"}, "spec": spec}


SUCCESSOR = {
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
USES_C = a_pod(persistentVolumeClaim={"claimName": "c"})


def test_a_volume_whose_pod_outlives_its_claim_is_not_deleted(play: Play):
    """The claim's finalizer was removed by hand, and the storage needs no attach."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        await stage.api.create(Pod, USES_C, "default")
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == {"d"}
        assert await events(stage, controller) == [("Normal", "VolumeDelete")]
        await stage.api.delete(Pod, "pod", "default", grace_period_seconds=0)
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == set()

    play(story)


def test_an_attachable_volume_is_deleted_though_a_pod_uses_the_next_claim_of_that_name(play: Play):
    """No VolumeAttachment of it is left: what the pod has is its successor's volume."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        await stage.api.create(PersistentVolumeClaim, SUCCESSOR, "default")
        await stage.api.create(Pod, USES_C, "default")
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == set()

    play(story)


def test_a_volume_that_needs_no_attach_is_not_emptied_under_a_pod_as_old_as_the_next_claim(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    no_threads(monkeypatch)

    async def story(stage: ControllerStage):
        controller = await to_recycle(stage, tmp_path / "data", {"recycle": "this-machine"})
        await stage.api.create(PersistentVolumeClaim, SUCCESSOR, "default")
        await stage.api.create(Pod, USES_C, "default")
        await controller.reconcile(VolumeKey("pv"))
        assert (tmp_path / "data" / "old").exists()

    play(story)


def test_a_volume_is_not_emptied_under_a_running_pod(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Upstream: recycle_test.go 6-11."""
    no_threads(monkeypatch)

    async def story(stage: ControllerStage):
        controller = await to_recycle(stage, tmp_path / "data", {"recycle": "this-machine"})
        await stage.api.create(Pod, USES_C, "default")
        await controller.reconcile(VolumeKey("pv"))
        assert (tmp_path / "data" / "old").exists()
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Released", "it is tried again"
        assert await events(stage, controller) == [("Normal", "VolumeFailedRecycle")]
        await stage.api.delete(Pod, "pod", "default", grace_period_seconds=0)
        await controller.reconcile(VolumeKey("pv"))
        assert list((tmp_path / "data").iterdir()) == []

    play(story)


async def to_recycle(
    stage: ControllerStage, path: Path, settings: dict[str, str], annotations: dict[str, str] | None = None
) -> Any:
    """A controller whose cache has a released hostPath volume of policy Recycle."""
    path.mkdir()
    (path / "old").touch()
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Recycle",
        "hostPath": {"path": str(path)},
        "claimRef": {"namespace": "default", "name": "c", "uid": "gone"},
    }
    metadata = {"name": "pv", "annotations": annotations or {}}
    await stage.api.create(PersistentVolume, {"metadata": metadata, "spec": spec})
    pv = await stage.api.patch(
        PersistentVolume, "pv", {"status": {"phase": "Released"}}, subresource="status"
    )
    host = ControllerVolumeHost(stage.now, {hostpath.PLUGIN_NAME: settings})
    controller = stage.make(ProvisioningController, plugins=PluginManager([hostpath.plugin()], host))
    controller.cache(PersistentVolume).accept(pv)
    return controller


def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(scrub, "blocking", at_once)


@pytest.mark.parametrize(
    ("annotations", "reserved"), [({"pv.kubernetes.io/bound-by-controller": "yes"}, ""), ({}, "c")]
)
def test_a_recycled_volume_is_empty_and_free_or_reserved_as_before_and_its_events_say_so(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, annotations: dict[str, str], reserved: str
):
    no_threads(monkeypatch)

    async def story(stage: ControllerStage):
        settings = {"recycle": "this-machine"}
        controller = await to_recycle(stage, tmp_path / "data", settings, annotations)
        await controller.reconcile(VolumeKey("pv"))
        assert list((tmp_path / "data").iterdir()) == []
        reference = (await stage.api.get(PersistentVolume, "pv")).spec.claim_ref
        assert (reference and (reference.name, reference.uid)) == ((reserved, "") if reserved else None)
        assert await events(stage, controller) == [("Normal", "VolumeRecycle"), ("Normal", "VolumeRecycled")]

    play(story)


def test_a_volume_of_another_machine_is_not_recycled_here(play: Play, tmp_path: Path):
    async def story(stage: ControllerStage):
        controller = await to_recycle(stage, tmp_path / "data", {})
        with pytest.raises(InvalidSpec, match="machine"):
            await controller.reconcile(VolumeKey("pv"))
        assert (tmp_path / "data" / "old").exists()
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Failed"
        assert await events(stage, controller) == [("Warning", "VolumeFailedRecycle")]

    play(story)


def test_mount_options_of_a_class_whose_plugin_has_none_are_refused(play: Play):
    async def story(stage: ControllerStage):
        body = {"metadata": {"name": "slow"}, "provisioner": DISK, "mountOptions": ["noatime"]}
        storage_class = await stage.api.create(StorageClass, body)
        annotations = {"volume.kubernetes.io/storage-provisioner": DISK}
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "slow",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        made = await stage.api.create(
            PersistentVolumeClaim,
            {"metadata": {"name": "c", "annotations": annotations}, "spec": claim},
            "default",
        )
        controller = stage.make(ProvisioningController, plugins=stage.plugins())
        controller.cache(StorageClass).accept(storage_class)
        controller.cache(PersistentVolumeClaim).accept(made)
        with pytest.raises(InvalidSpec, match="mount options"):
            await controller.reconcile(ClaimKey("default/c"))
        assert await events(stage, controller) == [("Warning", "ProvisioningFailed")]

    play(story)


def test_a_claim_keeps_a_finalizer_while_a_volume_is_made_for_it(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        stage.wire.unanswered(request("POST", "persistentvolumes"))
        with pytest.raises(Unreachable):
            await controller.reconcile(ClaimKey("default/c"))
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert BEGUN in claim.metadata.finalizers
        controller.cache(PersistentVolume).accept(await only_volume(stage))
        await controller.reconcile(ClaimKey("default/c"))
        assert BEGUN not in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers

    play(story)


def test_a_disk_that_was_made_for_a_claim_that_is_deleted_meanwhile_gets_its_volume(play: Play):
    """So it is reclaimed like any other volume: otherwise its disk would be forgotten."""

    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage)
        stage.wire.lose(request("POST", "persistentvolumes"))
        with pytest.raises(Unreachable):
            await controller.reconcile(ClaimKey("default/c"))
        assert len(stage.array.disks) == 1
        await stage.api.delete(PersistentVolumeClaim, "c", "default", uid=claim.uid)
        controller.cache(PersistentVolumeClaim).accept(
            await stage.api.get(PersistentVolumeClaim, "c", "default")
        )
        await controller.reconcile(ClaimKey("default/c"))
        assert {(await only_volume(stage)).name} == stage.array.disks
        assert BEGUN not in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers

    play(story)


def test_a_volume_that_a_late_cache_does_not_show_is_not_made_again_and_again(play: Play):
    """Found by the simulation: to begin and to end it were writes that woke the claim."""

    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        await controller.reconcile(ClaimKey("default/c"))
        successor = stage.make(ProvisioningController, plugins=stage.plugins())
        await stage.fill(successor, StorageClass, PersistentVolumeClaim)
        versions: list[str] = []
        for _ in range(3):
            await successor.reconcile(ClaimKey("default/c"))
            versions.append(
                (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.resource_version
            )
        assert len(set(versions)) == 1

    play(story)


@pytest.mark.parametrize("made", [False, True])
def test_another_node_is_chosen_for_a_claim_only_if_nothing_is_made_for_it(
    play: Play, monkeypatch: pytest.MonkeyPatch, made: bool
):
    """Found by the simulation: a disk was made, and could not be stored; the driver left the chosen node, and
    the claim went to a node of another zone, where the disk is not."""

    class Unsuited:
        async def provision(self) -> PersistentVolume:
            raise NodeUnsuited("its node has no driver")

    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage, mode="WaitForFirstConsumer")
        await stage.api.create(Node, {"metadata": {"name": "n0"}})
        chosen = {"metadata": {"annotations": {SELECTED_NODE: "n0"}}}
        claim = await stage.api.patch(PersistentVolumeClaim, "c", chosen, "default")
        controller.cache(PersistentVolumeClaim).accept(claim)
        if made:
            stage.wire.lose(request("POST", "persistentvolumes"))
            with pytest.raises(Unreachable):
                await controller.reconcile(ClaimKey("default/c"))
        assert len(stage.array.disks) == made
        monkeypatch.setattr(type(stage.plugins().plugins[0]), "new_provisioner", lambda *_: Unsuited())
        with pytest.raises(NodeUnsuited):
            await controller.reconcile(ClaimKey("default/c"))
        held = (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata
        assert ((SELECTED_NODE in held.annotations), (BEGUN in held.finalizers)) == (made, made)

    play(story)


def test_a_claim_that_is_deleted_goes_when_the_storage_has_certainly_made_nothing(play: Play):
    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage)
        good = await stage.api.get(StorageClass, "disk")
        await stage.api.delete(StorageClass, "disk")
        bad = {"metadata": {"name": "disk"}, "provisioner": good.provisioner, "parameters": {"bad": "yes"}}
        controller.cache(StorageClass).accept(await stage.api.create(StorageClass, bad))
        with pytest.raises(InvalidSpec):
            await controller.reconcile(ClaimKey("default/c"))
        await stage.api.delete(PersistentVolumeClaim, "c", "default", uid=claim.uid)
        controller.cache(PersistentVolumeClaim).accept(
            await stage.api.get(PersistentVolumeClaim, "c", "default")
        )
        with pytest.raises(InvalidSpec):
            await controller.reconcile(ClaimKey("default/c"))
        assert BEGUN not in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers

    play(story)


async def begins_and_loses_claim_and_class(stage: ControllerStage) -> Any:
    """A controller that has a disk made, and whose claim and class are deleted before the volume is
    stored."""
    controller, _ = await waiting_claim(stage)
    stage.wire.lose(request("POST", "persistentvolumes"))
    with pytest.raises(Unreachable):
        await controller.reconcile(ClaimKey("default/c"))
    await stage.api.delete(StorageClass, "disk")
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    controller._classes._objects.clear()
    await stage.fill(controller, PersistentVolumeClaim)
    return controller


def test_what_was_begun_is_brought_to_its_end_although_the_class_is_gone(play: Play):
    async def story(stage: ControllerStage):
        controller = await begins_and_loses_claim_and_class(stage)
        await controller.reconcile(ClaimKey("default/c"))
        assert {(await only_volume(stage)).name} == stage.array.disks
        assert BEGUN not in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers

    play(story)


def test_after_a_restart_the_claim_says_that_its_class_is_missing(play: Play):
    async def story(stage: ControllerStage):
        await begins_and_loses_claim_and_class(stage)
        controller = stage.make(ProvisioningController, plugins=stage.plugins())
        await stage.fill(controller, PersistentVolumeClaim)
        await controller.reconcile(ClaimKey("default/c"))
        assert BEGUN in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers
        assert await events(stage, controller) == [("Warning", "ProvisioningFailed")]

    play(story)


def test_a_plugin_without_attributes_makes_no_volume_for_a_claim_that_asks_for_some(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage, volumeAttributesClassName="gold")
        with pytest.raises(InvalidSpec, match="have no attributes"):
            await controller.reconcile(ClaimKey("default/c"))
        assert stage.array.disks == set()
        assert await events(stage, controller) == [("Warning", "ProvisioningFailed")]

    play(story)


def test_a_volume_that_a_user_deletes_stays_until_its_disk_is_gone(play: Play):
    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage)
        await controller.reconcile(ClaimKey("default/c"))
        await stage.api.delete(PersistentVolume, (await only_volume(stage)).name)
        await stage.api.patch(
            PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, "default", uid=claim.uid
        )
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        pv = await only_volume(stage)
        patch = {
            "metadata": {"finalizers": [each for each in pv.metadata.finalizers if "protection" not in each]}
        }
        await stage.api.patch(PersistentVolume, pv.name, patch)
        released = {"status": {"phase": "Released"}}
        controller.cache(PersistentVolume).accept(
            await stage.api.patch(PersistentVolume, pv.name, released, subresource="status")
        )
        await controller.reconcile(VolumeKey(pv.name))
        assert stage.array.disks == set()
        assert await stage.api.find(PersistentVolume, pv.name) is None

    play(story)


def test_nothing_is_remembered_of_a_claim_that_went_before_its_volume_was_begun(play: Play):
    """Found by the simulation (L18)."""

    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage)
        await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, "default")
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        with pytest.raises(NotFound):
            await controller.reconcile(ClaimKey("default/c"))
        controller.cache(PersistentVolumeClaim).apply(WatchEvent("DELETED", claim, "1000000"))
        assert [*remembered(controller, {claim.uid})] == []

    play(story)


def test_nothing_is_remembered_of_a_volume_that_went_while_its_disk_was_deleted(play: Play):
    """Found by the simulation (L18): the watch told of the volume's end before the disk's."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        volumes = controller.cache(PersistentVolume)
        pv = volumes.get("pv")
        assert pv is not None
        stage.array.journal = lambda actor, kind, **fields: volumes.apply(
            WatchEvent("DELETED", pv, "1000000")
        )
        await controller.reconcile(VolumeKey("pv"))
        assert stage.array.disks == set()
        assert [*remembered(controller, {pv.uid})] == []

    play(story)


def test_a_failure_to_reclaim_is_stored_once(play: Play, tmp_path: Path):
    """Found by the simulation (S33)."""

    async def story(stage: ControllerStage):
        controller = await to_recycle(stage, tmp_path / "data", {})
        write, counts = "PATCH /api/v1/persistentvolumes/pv/status", list[int]()
        for _ in range(2):
            with pytest.raises(InvalidSpec, match="machine"):
                await controller.reconcile(VolumeKey("pv"))
            counts.append(stage.wire.sent.count(write))
        assert counts[0] == counts[1]
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Failed"

    play(story)
