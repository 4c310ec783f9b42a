"""A claim stays while another one is made a copy of it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from controller_stage import DriverStage, Play
from played_driver import NAME
from requests_sent import marked

from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.decide import BEGUN
from mooring.controllers.provisioning.originals import CLONED, copied_from
from mooring.csi.errors import Code
from mooring.kube.client import WatchEvent
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
)
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown

SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "k",
    "resources": {"requests": {"storage": "1Gi"}},
}
OF_A_CLAIM = {"kind": "PersistentVolumeClaim", "name": "original"}


class CopyStage(DriverStage):
    """The claim `original` has the volume pv, and `copy` is to be a copy of it."""

    def start(self) -> None:
        self.controller = self.make(ProvisioningController, plugins=self.driver())

    async def set_up(self) -> None:
        self.start()
        await self.api.create(StorageClass, {"metadata": {"name": "k"}, "provisioner": NAME})
        original = await self.claim("original", volumeName="pv")
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        reference = {"namespace": "default", "name": "original", "uid": original.uid}
        source = {"csi": {"driver": NAME, "volumeHandle": "v"}, "claimRef": reference}
        await self.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})
        await self.bind("original")
        await self.claim("copy", dataSource=OF_A_CLAIM)

    async def claim(self, name: str, **more: Any) -> PersistentVolumeClaim:
        asked = {"volume.kubernetes.io/storage-provisioner": NAME}
        body = {"metadata": {"name": name, "annotations": asked}, "spec": {**SPEC, **more}}
        return await self.api.create(PersistentVolumeClaim, body, "default")

    async def bind(self, name: str) -> None:
        bound = {"status": {"phase": "Bound"}}
        await self.api.patch(PersistentVolumeClaim, name, bound, "default", subresource="status")

    async def look(self, name: str) -> None:
        """By a successor, with a cache that is filled anew."""
        self.start()
        await self.fill(self.controller, PersistentVolumeClaim, StorageClass, PersistentVolume)
        await self.controller.reconcile(ClaimKey(f"default/{name}"))

    async def held(self) -> bool:
        found = await self.api.find(PersistentVolumeClaim, "original", "default")
        return found is not None and CLONED in found.metadata.finalizers


@pytest.fixture
def play(play: Play) -> Play:
    async def set_up(stage: CopyStage, story: Any) -> Any:
        await stage.set_up()
        return await story(stage)

    return lambda story: play(partial(set_up, story=story), stage=CopyStage)


@pytest.mark.parametrize("end", ["it has its volume", "it goes"])
def test_an_original_stays_until_the_copy_has_its_volume_or_goes(play: Play, end: str):
    async def story(stage: CopyStage) -> None:
        stage.storage.failing["CreateVolume"].errors = [Code.DEADLINE_EXCEEDED]
        with pytest.raises(OutcomeUnknown):
            await stage.look("copy")
        await stage.api.delete(PersistentVolumeClaim, "original", "default")
        await stage.look("original")
        assert await stage.held()
        if end == "it goes":
            await stage.api.delete(PersistentVolumeClaim, "copy", "default")
        await stage.look("copy")
        assert [asked.volume_content_source.volume.volume_id for _, asked in stage.storage.calls] == [
            "v",
            "v",
        ]
        if end == "it has its volume":
            await stage.bind("copy")
        else:  # as the binder does then
            unused = {"metadata": {"finalizers": None}}
            await stage.api.patch(PersistentVolumeClaim, "copy", unused, "default")
        await stage.look("original")
        assert not await stage.held()

    play(story)


def test_a_copy_that_the_cache_does_not_show_keeps_its_original(play: Play):
    async def story(stage: CopyStage) -> None:
        held = {"metadata": {"finalizers": [CLONED]}}
        original = await stage.api.patch(PersistentVolumeClaim, "original", held, "default")
        stage.controller.cache(PersistentVolumeClaim).accept(original)
        await stage.controller.reconcile(ClaimKey("default/original"))
        assert await stage.held()

    play(story)


def test_a_claim_that_is_being_deleted_is_not_copied_any_more(play: Play):
    """It takes no finalizer, and may go with its disk at any time."""

    async def story(stage: CopyStage) -> None:
        used = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
        await stage.api.patch(PersistentVolumeClaim, "original", used, "default")
        await stage.api.delete(PersistentVolumeClaim, "original", "default")
        with pytest.raises(InvalidSpec, match="being deleted"):
            await stage.look("copy")
        assert stage.storage.calls == []
        begun = {"metadata": {"finalizers": [BEGUN]}}
        await stage.api.patch(PersistentVolumeClaim, "copy", begun, "default")
        await stage.api.delete(PersistentVolumeClaim, "copy", "default")
        await stage.look("copy")  # a former process may have asked: the same is asked for again
        ((_, asked),) = stage.storage.calls
        assert asked.volume_content_source.volume.volume_id == "v"

    play(story)


@pytest.mark.parametrize("again", [False, True])
def test_what_goes_while_its_volume_is_read_is_not_copied(play: Play, again: bool):
    """Its disk goes with it; and there may be another claim of its name by then."""

    async def story(stage: CopyStage) -> None:
        await stage.fill(stage.controller, PersistentVolumeClaim, StorageClass, PersistentVolume)
        read = stage.wire.hold(request("GET", "persistentvolumes/pv"))
        copying = asyncio.create_task(stage.controller.reconcile(ClaimKey("default/copy")))
        await read.arrived.wait()
        unused = {"metadata": {"finalizers": None}}
        original = await stage.api.patch(PersistentVolumeClaim, "original", unused, "default")
        await stage.api.delete(PersistentVolumeClaim, "original", "default")
        gone = WatchEvent("DELETED", original, str(int(original.metadata.resource_version) + 1))
        stage.controller.cache(PersistentVolumeClaim).apply(gone)
        if again:
            await stage.claim("original", volumeName="other")
            await stage.fill(stage.controller, PersistentVolumeClaim)
        read.release()
        with pytest.raises(Conflict if again else NotFound):
            await copying
        assert stage.storage.calls == []

    play(story)


@pytest.mark.parametrize("going", [False, True])
def test_the_volume_of_a_former_original_is_not_copied(play: Play, going: bool):
    """A late cache shows it as held. There is another one of its name: that is to be copied."""

    async def story(stage: CopyStage) -> None:
        held = {"metadata": {"finalizers": [CLONED]}}
        await stage.api.patch(PersistentVolumeClaim, "original", held, "default")
        if going:
            await stage.api.delete(PersistentVolumeClaim, "original", "default")
        await stage.fill(stage.controller, PersistentVolumeClaim, StorageClass, PersistentVolume)
        unheld = {"metadata": {"finalizers": None}}
        await stage.api.patch(PersistentVolumeClaim, "original", unheld, "default")
        if not going:
            await stage.api.delete(PersistentVolumeClaim, "original", "default")
        await stage.claim("original", volumeName="other")
        with pytest.raises(Conflict):
            await stage.controller.reconcile(ClaimKey("default/copy"))
        assert stage.storage.calls == []
        with pytest.raises(InvalidSpec, match="not bound yet"):
            await stage.controller.reconcile(ClaimKey("default/copy"))

    play(story)


def test_an_original_is_looked_at_when_its_copy_changes(play: Play):
    async def story(stage: CopyStage) -> None:
        await stage.fill(stage.controller, PersistentVolumeClaim)
        await marked(stage.controller)
        copy = await stage.api.get(PersistentVolumeClaim, "copy", "default")
        stage.controller.cache(PersistentVolumeClaim).apply(WatchEvent("DELETED", copy, "1000000"))
        assert {*await marked(stage.controller)} == {ClaimKey("default/copy"), ClaimKey("default/original")}

    play(story)


def test_what_is_made_of_a_snapshot_is_no_copy_of_a_claim():
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "original"}
    assert copied_from(PersistentVolumeClaim(spec=PersistentVolumeClaimSpec(data_source=source))) == []


def test_of_an_original_whose_volume_was_made_anew_the_present_disk_is_copied(play: Play):
    """A user has restored it under its name; the watch of PersistentVolumes is late."""

    async def story(stage: CopyStage) -> None:
        await stage.fill(stage.controller, PersistentVolumeClaim, StorageClass, PersistentVolume)
        former = await stage.api.get(PersistentVolume, "pv")
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        reference = {"namespace": "default", "name": "original", "uid": former.spec.claim_ref.uid}
        source = {"csi": {"driver": NAME, "volumeHandle": "w"}, "claimRef": reference}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})
        await stage.controller.reconcile(ClaimKey("default/copy"))
        ((_, asked),) = stage.storage.calls
        assert asked.volume_content_source.volume.volume_id == "w"

    play(story)
