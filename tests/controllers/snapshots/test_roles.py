"""The two halves, each alone and both together, with a CSI driver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from controller_stage import DriverStage, Play
from crashes import crashed_under
from played_driver import NAME, Failing
from requests_sent import marked

from mooring.controllers.snapshots.content_decisions import UNKNOWN_POLICY
from mooring.controllers.snapshots.controller import SnapshotController
from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.controllers.snapshots.late_contents import LATEST_CREATION_S
from mooring.controllers.snapshots.names import BEING_CREATED, CLAIM_FINALIZER
from mooring.controllers.snapshots.snapshotter import SnapshotterController
from mooring.csi.errors import Code
from mooring.kube.client import WatchEvent
from mooring.kube.errors import NotFound
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.snapshots import (
    BEING_DELETED,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from mooring.volumes.errors import OutcomeUnknown, StorageRefused
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager

BODY: dict[str, Any] = {
    "metadata": {"name": "s"},
    "spec": {"source": {"persistentVolumeClaimName": "c"}, "volumeSnapshotClassName": "fast"},
}


def _of_a_newer_version(definition: dict[str, Any]) -> dict[str, Any]:
    """With one more policy of deletion."""
    return json.loads(json.dumps(definition).replace('"Retain"', '"Retain", "Archive"'))


class SnapshotHalves(DriverStage):
    """A bound claim c of the volume v; the first half knows no driver."""

    def start(self) -> None:
        """Both halves, or their successors."""
        none = PluginManager([], ControllerVolumeHost(self.now))
        self.first = self.make(SnapshotController, plugins=none)
        self.second = self.make(SnapshotterController, plugins=self.driver())

    async def set_up(self) -> None:
        self.start()
        for body in DEFINITIONS:
            await self.api.create(CustomResourceDefinition, _of_a_newer_version(body))
        await self.volume()
        asked = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pv",
        }
        claim = await self.api.create(
            PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": asked}, "default"
        )
        await self.reserve("c", claim.uid)
        bound = {"status": {"phase": "Bound"}}
        await self.api.patch(PersistentVolumeClaim, "c", bound, "default", subresource="status")
        of_class = {"metadata": {"name": "fast"}, "driver": NAME, "deletionPolicy": "Delete"}
        await self.api.create(VolumeSnapshotClass, of_class)
        await self.api.create(VolumeSnapshot, BODY, "default")

    async def volume(self) -> None:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        source = {"csi": {"driver": NAME, "volumeHandle": "v"}}
        await self.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})

    async def reserve(self, claim: str, uid: str) -> None:
        """Binds the volume to a claim."""
        reference = {"namespace": "default", "name": claim, "uid": uid}
        await self.api.patch(PersistentVolume, "pv", {"spec": {"claimRef": reference}})

    async def content(self) -> VolumeSnapshotContent | None:
        found = (await self.api.list(VolumeSnapshotContent)).items
        return found[0] if found else None

    async def snapshot(self) -> VolumeSnapshot | None:
        return await self.api.find(VolumeSnapshot, "s", "default")

    async def goes_with_its_content(self) -> None:
        """Deletes the snapshot, and sees that its content goes first."""
        await self.api.delete(VolumeSnapshot, "s", "default")
        for _ in range(2):
            await self.ask()
            await self.take()
        assert await self.content() is None
        await self.ask()
        assert await self.snapshot() is None

    async def ask(self) -> None:
        """Runs the first half, with caches that are filled anew."""
        self.start()
        await self.fill(self.first, *(informer.kind for informer in self.first.caches))
        await self.first.reconcile("default/s")

    async def ask_telling(self, told: list[tuple[str, str]]) -> None:
        """The same; what both halves tell from then on is noted: about whom, and the code."""
        self.start()
        for half in (self.first, self.second):
            half.recorder.once = lambda about, type_, reason: told.append((about.name, reason.code))
        await self.fill(self.first, *(informer.kind for informer in self.first.caches))
        await self.first.reconcile("default/s")

    async def take(self) -> None:
        """Runs the second half."""
        content = await self.content()
        if content is not None:
            self.second.cache(VolumeSnapshotContent).accept(content)
            await self.second.reconcile(content.name)


@pytest.fixture
def play(play: Play) -> Play:
    async def set_up(stage: SnapshotHalves, story: Callable[[SnapshotHalves], Any]) -> Any:
        await stage.set_up()
        return await story(stage)

    return lambda story: play(partial(set_up, story=story), stage=SnapshotHalves)


def test_a_snapshot_gets_ready_and_goes(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        snapshot = await stage.snapshot()
        assert snapshot is not None
        assert snapshot.status.bound_volume_snapshot_content_name == f"snapcontent-{snapshot.uid}"
        assert not snapshot.status.ready_to_use
        await stage.take()
        await stage.take()  # the driver is not ready at the first call
        await stage.ask()
        ready = await stage.snapshot()
        assert ready is not None
        assert ready.status.ready_to_use
        assert list(stage.storage.snapshots) == [f"snapshot-{ready.uid}"], "as upstream calls it"
        content = await stage.content()
        assert content is not None
        assert BEING_CREATED not in content.metadata.annotations
        await stage.api.delete(VolumeSnapshot, "s", "default")
        await stage.ask()
        await stage.take()
        assert stage.storage.snapshots == {}
        await stage.ask()
        assert await stage.content() is None
        assert await stage.snapshot() is None

    play(story)


def test_of_a_volume_that_was_made_anew_for_another_claim_no_snapshot_is_taken(play: Play):
    """The claim names it, and is shown as bound, until the binder says that it has lost its volume."""

    async def story(stage: SnapshotHalves) -> None:
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await stage.volume()
        for other in (None, "other"):
            if other:
                await stage.reserve(other, "another-claim")
            await stage.ask()
            assert await stage.content() is None

    play(story)


def test_a_snapshot_is_taken_once_its_claims_volume_is_known(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await stage.fill(stage.first, VolumeSnapshot, PersistentVolumeClaim, VolumeSnapshotClass)
        await stage.first.reconcile("default/s")
        assert await stage.content() is None
        await marked(stage.first)
        await stage.volume()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        await stage.reserve("c", claim.uid)
        volume = await stage.api.get(PersistentVolume, "pv")
        stage.first.cache(PersistentVolume).apply(
            WatchEvent("ADDED", volume, volume.metadata.resource_version)
        )
        assert await marked(stage.first) == ["default/s"]
        await stage.first.reconcile("default/s")
        assert await stage.content() is not None

    play(story)


def test_a_content_that_a_user_deletes_stays_while_its_snapshot_does(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        await stage.take()
        content = await stage.content()
        assert content is not None
        await stage.api.delete(VolumeSnapshotContent, content.name)
        await stage.take()
        assert len(stage.storage.snapshots) == 1

    play(story)


def test_a_snapshot_with_a_deletion_policy_that_is_not_known_stays_and_is_told_of(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        await stage.take()
        content = await stage.content()
        assert content is not None
        await stage.api.patch(VolumeSnapshotContent, content.name, {"spec": {"deletionPolicy": "Archive"}})
        await stage.api.delete(VolumeSnapshot, "s", "default")
        told: list[tuple[str, str]] = []
        await stage.ask_telling(told)
        await stage.api.patch(
            VolumeSnapshotContent, content.name, {"metadata": {"annotations": {BEING_DELETED: "yes"}}}
        )
        await stage.api.delete(VolumeSnapshotContent, content.name)
        await stage.take()
        assert told == [(name, UNKNOWN_POLICY) for name in ("s", content.name)]
        assert len(stage.storage.snapshots) == 1

    play(story)


def test_a_snapshot_whose_creation_was_not_answered_is_deleted_with_its_content(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        stage.storage.failing["CreateSnapshot"] = Failing([Code.DEADLINE_EXCEEDED], after=True)
        await stage.ask()
        with pytest.raises(OutcomeUnknown):
            await stage.take()
        content = await stage.content()
        assert content is not None
        assert BEING_CREATED in content.metadata.annotations
        assert content.status.error is not None
        assert len(stage.storage.snapshots) == 1
        await stage.api.delete(VolumeSnapshot, "s", "default")
        await stage.ask()
        await stage.take()
        assert stage.storage.snapshots == {}
        assert await stage.content() is None

    play(story)


def test_a_claim_that_has_been_let_go_too_early_is_held_again(play: Play):
    """By a former leader, whose last write came late. Of a claim that has the same name, and another volume,
    no snapshot is taken."""

    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, "default")
        await stage.ask()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert CLAIM_FINALIZER in claim.metadata.finalizers
        await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, "default")
        await stage.reserve("other", "another-claim")
        await stage.ask()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert CLAIM_FINALIZER not in claim.metadata.finalizers

    play(story)


def test_a_refusal_is_told_on_the_snapshot_and_leaves_nothing_to_wait_for(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        stage.storage.failing["CreateSnapshot"] = Failing([Code.INVALID_ARGUMENT])
        await stage.ask()
        with pytest.raises(StorageRefused):
            await stage.take()
        await stage.ask()
        snapshot = await stage.snapshot()
        assert snapshot is not None
        assert snapshot.status.error is not None
        assert "as the test asked" in snapshot.status.error.message
        await stage.api.delete(VolumeSnapshot, "s", "default")
        await stage.ask()
        await stage.take()
        assert await stage.content() is None
        assert stage.storage.methods() == ["CreateSnapshot"]

    play(story)


def test_what_is_written_around_a_request_does_not_end_its_backoff(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        stage.storage.failing["CreateSnapshot"] = Failing([Code.INVALID_ARGUMENT])
        await stage.ask()
        content = await stage.content()
        assert content is not None
        stage.second.cache(VolumeSnapshotContent).accept(content)
        assert await marked(stage.second) == [content.name]
        with pytest.raises(StorageRefused):
            await stage.second.reconcile(content.name)
        assert await marked(stage.second) == []

    play(story)


def test_an_error_goes_when_the_snapshot_is_taken_after_all(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        stage.storage.failing["CreateSnapshot"] = Failing([Code.UNAVAILABLE])
        await stage.ask()
        with pytest.raises(OutcomeUnknown):
            await stage.take()
        await stage.ask()
        await stage.take()
        await stage.take()
        await stage.ask()
        snapshot = await stage.snapshot()
        assert snapshot is not None
        assert snapshot.status.error is None
        assert snapshot.status.ready_to_use

    play(story)


def test_a_snapshot_that_exists_is_bound_to_the_one_that_names_it(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        reference = {"namespace": "default", "name": "s2"}
        spec = {"deletionPolicy": "Retain", "driver": NAME, "source": {"snapshotHandle": "h"}}
        body = {"metadata": {"name": "kept"}, "spec": {**spec, "volumeSnapshotRef": reference}}
        await stage.api.create(VolumeSnapshotContent, body)
        source = {"volumeSnapshotContentName": "kept"}
        await stage.api.create(
            VolumeSnapshot, {"metadata": {"name": "s2"}, "spec": {"source": source}}, "default"
        )
        for each in (VolumeSnapshot, VolumeSnapshotContent):
            informer = stage.first.cache(each)
            for found in (await stage.api.list(each)).items:
                informer.accept(found)
        await stage.first.reconcile("default/s2")
        await stage.take()
        content = await stage.content()
        snapshot = await stage.api.get(VolumeSnapshot, "s2", "default")
        assert content is not None
        assert content.spec.volume_snapshot_ref.uid == snapshot.uid
        assert content.status.snapshot_handle == "h"

    play(story)


def test_what_the_storage_keeps_already_is_deleted_with_the_content_that_a_user_has_written_for_it(
    play: Play,
):
    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        await stage.take()
        (handle,) = stage.storage.snapshots
        spec = {"deletionPolicy": "Delete", "driver": NAME, "source": {"snapshotHandle": handle}}
        reference = {"namespace": "default", "name": "s2", "uid": "u"}
        body = {"metadata": {"name": "kept"}, "spec": {**spec, "volumeSnapshotRef": reference}}
        contents = stage.second.cache(VolumeSnapshotContent)
        contents.accept(await stage.api.create(VolumeSnapshotContent, body))
        await stage.second.reconcile("kept")
        deleted = {"metadata": {"annotations": {BEING_DELETED: "yes"}}}
        await stage.api.patch(VolumeSnapshotContent, "kept", deleted)
        await stage.api.delete(VolumeSnapshotContent, "kept")
        contents.accept(await stage.api.get(VolumeSnapshotContent, "kept"))
        await stage.second.reconcile("kept")
        assert stage.storage.snapshots == {}
        assert await stage.api.find(VolumeSnapshotContent, "kept") is None

    play(story)


def test_of_what_was_never_taken_nothing_is_kept_whatever_the_policy(play: Play):
    """Found by the simulation: the storage was asked for ever for the snapshot of a VolumeSnapshot that was
    gone."""

    async def story(stage: SnapshotHalves) -> None:
        stage.storage.failing["CreateSnapshot"] = Failing([Code.INVALID_ARGUMENT])
        await stage.ask()
        content = await stage.content()
        assert content is not None
        await stage.api.patch(VolumeSnapshotContent, content.name, {"spec": {"deletionPolicy": "Retain"}})
        with pytest.raises(StorageRefused):
            await stage.take()
        await stage.goes_with_its_content()
        assert stage.storage.snapshots == {}

    play(story)


async def claim_let_go(stage: SnapshotHalves) -> bool:
    """Whether the first half keeps the claim c no more, or it is gone."""
    stage.start()
    await stage.fill(stage.first, *(informer.kind for informer in stage.first.caches))
    await stage.first.reconcile(ClaimKey("default/c"))
    claim = await stage.api.find(PersistentVolumeClaim, "c", "default")
    return claim is None or CLAIM_FINALIZER not in claim.metadata.finalizers


@pytest.mark.parametrize("end", ["it is ready", "it goes"])
def test_a_claim_stays_until_the_snapshot_of_it_is_taken(play: Play, end: str):
    """Its volume, with all that is to be kept, would go with it."""

    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        await stage.take()
        await stage.ask()
        assert not await claim_let_go(stage)
        if end == "it goes":
            await stage.api.delete(VolumeSnapshot, "s", "default")
        for _ in range(2):
            await stage.take()
            await stage.ask()
        assert await claim_let_go(stage)

    play(story)


def test_a_claim_is_held_once_for_two_snapshots_that_are_asked_for_at_once(play: Play):
    """Found by the simulation: the second write was upon a state from before the first, and was refused."""

    async def story(stage: SnapshotHalves) -> None:
        await stage.api.create(VolumeSnapshot, {**BODY, "metadata": {"name": "t"}}, "default")
        await stage.fill(stage.first, *(informer.kind for informer in stage.first.caches))
        protect = stage.first._protect

        async def meanwhile(snapshot: VolumeSnapshot) -> VolumeSnapshot:
            protected = await protect(snapshot)
            if snapshot.name == "s":
                await stage.first.reconcile("default/t")
            return protected

        stage.first._protect = meanwhile
        await stage.first.reconcile("default/s")
        assert len((await stage.api.list(VolumeSnapshotContent)).items) == 2

    play(story)


def test_a_snapshot_that_the_cache_does_not_show_keeps_its_claim(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        stage.start()
        await stage.fill(stage.first, PersistentVolumeClaim)
        await stage.first.reconcile(ClaimKey("default/c"))
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert CLAIM_FINALIZER in claim.metadata.finalizers

    play(story)


def test_a_claim_is_looked_at_when_its_snapshot_changes(play: Play):
    async def story(stage: SnapshotHalves) -> None:
        await stage.ask()
        await marked(stage.first)
        snapshot = await stage.snapshot()
        assert snapshot is not None
        stage.first.cache(VolumeSnapshot).apply(WatchEvent("DELETED", snapshot, "1000000"))
        assert {*await marked(stage.first)} == {"default/s", ClaimKey("default/c")}

    play(story)


def test_of_a_claim_that_is_being_deleted_a_snapshot_is_taken_while_it_is_there(play: Play):
    """A pod uses it still. No finalizer can be added then."""

    async def story(stage: SnapshotHalves) -> None:
        used = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
        await stage.api.patch(PersistentVolumeClaim, "c", used, "default")
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        await stage.ask()
        assert await stage.content() is not None

    play(story)


@pytest.mark.parametrize("cached", [True, False], ids=["", "the cache does not show the claim yet"])
def test_a_snapshot_stays_until_the_claim_that_is_made_of_it_has_its_volume(play: Play, cached: bool):
    async def story(stage: SnapshotHalves) -> None:
        for _ in range(3):
            await stage.ask()
            await stage.take()
        source = {"apiGroup": VolumeSnapshot.RESOURCE.group, "kind": "VolumeSnapshot", "name": "s"}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        body = {"metadata": {"name": "restored"}, "spec": {**spec, "dataSource": source}}
        await stage.api.create(PersistentVolumeClaim, body, "default")
        await stage.api.delete(VolumeSnapshot, "s", "default")
        stage.start()
        kinds = {informer.kind for informer in stage.first.caches} - {PersistentVolumeClaim}
        await stage.fill(stage.first, *kinds, *([PersistentVolumeClaim] if cached else []))
        await stage.first.reconcile("default/s")
        await stage.take()
        assert len(stage.storage.snapshots) == 1
        bound = {"status": {"phase": "Bound"}}
        await stage.api.patch(PersistentVolumeClaim, "restored", bound, "default", subresource="status")
        for _ in range(2):
            await stage.ask()
            await stage.take()
        assert stage.storage.snapshots == {}
        assert await stage.snapshot() is None

    play(story)


async def live(stage: SnapshotHalves) -> None:
    """A snapshot becomes ready; then it is deleted, and gone."""
    for _ in range(3):
        await stage.ask()
        await stage.take()
    await stage.api.delete(VolumeSnapshot, "s", "default")
    for _ in range(3):
        await stage.ask()
        await stage.take()


@pytest.mark.parametrize("after", [False, True], ids=["before the request", "after its effect"])
def test_killed_at_every_request_no_snapshot_is_left_behind(play: Play, after: bool):
    async def story(stage: SnapshotHalves, number: int) -> bool:
        stage.wire.crash_at(number, after=after)
        more = await crashed_under(stage.wire, live(stage))
        stage.start()
        with suppress(NotFound):
            await stage.api.delete(VolumeSnapshot, "s", "default")
        for _ in range(3):
            await stage.ask()
            await stage.take()
        assert stage.storage.snapshots == {}
        assert await stage.content() is None
        await asyncio.sleep(LATEST_CREATION_S)
        await stage.first.reconcile("default/s")
        assert await stage.snapshot() is None
        return more

    number = 0
    while play(lambda at: story(at, number)):  # noqa: B023
        number += 1
    assert number > 30
