"""A snapshot controller whose cache is late: it shows a claim or a snapshot as held that has gone since, or
not a content that is there."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from controller_stage import Play
from played_driver import NAME
from tests.controllers.snapshots.test_roles import SnapshotHalves

from mooring.controllers.snapshots.late_contents import LATEST_CREATION_S
from mooring.controllers.snapshots.names import CLAIM_FINALIZER, SNAPSHOT_FINALIZER
from mooring.kube.client import WatchEvent
from mooring.kube.errors import Conflict, NotFound, Unreachable
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.simulation.parts.faulty_transport import request

HELD = {"metadata": {"finalizers": [CLAIM_FINALIZER]}}
USED = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
UNHELD: dict[str, Any] = {"metadata": {"finalizers": None}}


class LateStage(SnapshotHalves):
    """The first half has seen everything, and what changes later only as far as a test fills its caches."""

    async def seen(self) -> None:
        self.start()
        await self.fill(self.first, *(informer.kind for informer in self.first.caches))

    async def claim_goes(self) -> None:
        await self.api.delete(PersistentVolumeClaim, "c", "default")
        if await self.api.find(PersistentVolumeClaim, "c", "default") is not None:
            await self.api.patch(PersistentVolumeClaim, "c", UNHELD, "default")

    async def another_claim(self) -> None:
        """One of its name, and of the volume w."""
        await self.claim_goes()
        more = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        body = {"metadata": {"name": "c"}, "spec": {**more, "volumeName": "other"}}
        claim = await self.api.create(PersistentVolumeClaim, body, "default")
        reference = {"namespace": "default", "name": "c", "uid": claim.uid}
        source = {"csi": {"driver": NAME, "volumeHandle": "w"}, "claimRef": reference}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        await self.api.create(PersistentVolume, {"metadata": {"name": "other"}, "spec": {**spec, **source}})
        bound = {"status": {"phase": "Bound"}}
        await self.api.patch(PersistentVolumeClaim, "c", bound, "default", subresource="status")

    async def volumes_of_contents(self) -> list[str | None]:
        found = await self.content()
        return [found.spec.source.volume_handle] if found is not None else []


@pytest.fixture
def play(play: Play) -> Play:
    async def set_up(stage: LateStage, story: Any) -> Any:
        await stage.set_up()
        return await story(stage)

    return lambda story: play(partial(set_up, story=story), stage=LateStage)


@pytest.mark.parametrize("going", [False, True])
@pytest.mark.parametrize("finalizers", [HELD, USED])
def test_no_snapshot_is_taken_of_the_volume_of_a_former_claim(play: Play, going: bool, finalizers: Any):
    """A user who made the claim anew would get a copy of what there was before (81099 of the swarm)."""

    async def story(stage: LateStage) -> None:
        await stage.api.patch(PersistentVolumeClaim, "c", finalizers, "default")
        if going:
            await stage.api.delete(PersistentVolumeClaim, "c", "default")
        await stage.seen()
        await stage.another_claim()
        with pytest.raises(Conflict):
            await stage.first.reconcile("default/s")
        assert await stage.volumes_of_contents() == []
        await stage.fill(stage.first, PersistentVolume, PersistentVolumeClaim)
        await stage.first.reconcile("default/s")
        assert await stage.volumes_of_contents() == ["w"]

    play(story)


@pytest.mark.parametrize("finalizers", [HELD, USED])
def test_no_snapshot_is_taken_for_a_claim_that_has_gone(play: Play, finalizers: Any):
    """Its volume may be reclaimed at any time."""

    async def story(stage: LateStage) -> None:
        await stage.api.patch(PersistentVolumeClaim, "c", finalizers, "default")
        await stage.seen()
        await stage.claim_goes()
        with pytest.raises((NotFound, Conflict)):
            await stage.first.reconcile("default/s")
        assert await stage.volumes_of_contents() == []

    play(story)


def test_a_claim_that_was_let_go_meanwhile_is_held_anew(play: Play):
    """Another snapshot of it was taken."""

    async def story(stage: LateStage) -> None:
        await stage.api.patch(PersistentVolumeClaim, "c", HELD, "default")
        await stage.seen()
        await stage.api.patch(PersistentVolumeClaim, "c", UNHELD, "default")
        await stage.first.reconcile("default/s")
        assert await stage.volumes_of_contents() == ["v"]
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert CLAIM_FINALIZER in claim.metadata.finalizers

    play(story)


def test_a_claim_that_is_held_and_has_changed_since_is_held_still(play: Play):
    async def story(stage: LateStage) -> None:
        await stage.api.patch(PersistentVolumeClaim, "c", HELD, "default")
        await stage.seen()
        await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"labels": {"a": "b"}}}, "default")
        await stage.first.reconcile("default/s")
        assert await stage.volumes_of_contents() == ["v"]

    play(story)


def test_nothing_is_made_for_a_snapshot_that_has_gone(play: Play):
    """Its content, and what the storage takes for that, would be left behind."""

    async def story(stage: LateStage) -> None:
        held = {"metadata": {"finalizers": [SNAPSHOT_FINALIZER]}}
        await stage.api.patch(VolumeSnapshot, "s", held, "default")
        await stage.seen()
        await stage.api.patch(VolumeSnapshot, "s", UNHELD, "default")
        await stage.api.delete(VolumeSnapshot, "s", "default")
        with pytest.raises(NotFound):
            await stage.first.reconcile("default/s")
        assert await stage.volumes_of_contents() == []

    play(story)


def test_a_snapshot_is_not_let_go_while_it_has_a_content_that_the_cache_does_not_show(play: Play):
    """A former leader had made it, and its answer was lost."""

    async def story(stage: LateStage) -> None:
        await stage.seen()
        await stage.first.reconcile("default/s")
        await stage.take()
        await stage.api.delete(VolumeSnapshot, "s", "default")
        stage.start()
        await stage.fill(stage.first, VolumeSnapshot)
        for _ in range(2):  # what it finds marks the snapshot
            await stage.first.reconcile("default/s")
        assert await stage.snapshot() is not None
        await stage.take()
        assert stage.storage.snapshots == {}
        await stage.ask()
        assert await stage.snapshot() is None

    play(story)


def test_a_content_whose_creation_comes_late_finds_its_snapshot_and_goes_with_it(play: Play):
    """Nothing else would delete it, nor what the storage takes for it (81099 of the swarm)."""

    async def story(stage: LateStage) -> None:
        await stage.seen()
        late = stage.wire.late(request("POST", "volumesnapshotcontents"))
        with pytest.raises(Unreachable):
            await stage.first.reconcile("default/s")
        await stage.api.delete(VolumeSnapshot, "s", "default")
        await stage.fill(stage.first, VolumeSnapshot)
        await stage.first.reconcile("default/s")
        await asyncio.sleep(LATEST_CREATION_S - 1)
        await stage.first.reconcile("default/s")
        await late.deliver()
        await asyncio.sleep(1)
        await stage.take()
        for _ in range(2):  # what it finds marks the snapshot
            await stage.first.reconcile("default/s")
        assert await stage.snapshot() is not None
        await stage.take()
        assert stage.storage.snapshots == {}
        await stage.ask()
        await asyncio.sleep(LATEST_CREATION_S)
        await stage.first.reconcile("default/s")
        assert await stage.snapshot() is None

    play(story)


def test_a_snapshot_that_was_told_of_its_content_is_let_go_with_it(play: Play):
    async def story(stage: LateStage) -> None:
        await stage.ask()
        await stage.goes_with_its_content()

    play(story)


def test_a_snapshot_whose_content_is_retained_is_let_go_when_none_can_come_any_more(play: Play):
    """Else one that was asked for twice comes when its user has deleted the first one, and stays for good."""

    async def story(stage: LateStage) -> None:
        await stage.seen()
        stage.wire.late(request("POST", "volumesnapshotcontents"))
        with pytest.raises(Unreachable):
            await stage.first.reconcile("default/s")
        await stage.first.reconcile("default/s")
        content = await stage.content()
        assert content is not None
        await stage.api.patch(VolumeSnapshotContent, content.name, {"spec": {"deletionPolicy": "Retain"}})
        await stage.take()
        await stage.api.delete(VolumeSnapshot, "s", "default")
        await stage.fill(stage.first, VolumeSnapshot, VolumeSnapshotContent)
        await stage.first.reconcile("default/s")
        assert await stage.snapshot() is not None
        await asyncio.sleep(LATEST_CREATION_S)
        await stage.first.reconcile("default/s")
        assert (await stage.snapshot(), await stage.content() is None) == (None, False)

    play(story)


def test_a_content_that_was_asked_for_twice_may_come_when_the_first_one_has_gone(play: Play):
    """The first request to create it came last (82523 of the swarm)."""

    async def story(stage: LateStage) -> None:
        await stage.seen()
        late = stage.wire.late(request("POST", "volumesnapshotcontents"))
        with pytest.raises(Unreachable):
            await stage.first.reconcile("default/s")
        await stage.first.reconcile("default/s")
        told = await stage.snapshot()
        assert told is not None
        assert told.status.bound_volume_snapshot_content_name
        await stage.api.delete(VolumeSnapshot, "s", "default")
        await stage.fill(stage.first, VolumeSnapshot)
        await stage.first.reconcile("default/s")
        await stage.take()
        contents = stage.first.cache(VolumeSnapshotContent)
        now = (await stage.api.list(VolumeSnapshotContent)).resource_version
        contents.apply(WatchEvent("DELETED", contents.items()[0], now))
        await stage.first.reconcile("default/s")
        await late.deliver()
        await asyncio.sleep(LATEST_CREATION_S)
        for _ in range(2):  # what it finds marks the snapshot
            await stage.first.reconcile("default/s")
        assert await stage.snapshot() is not None
        await stage.take()
        await stage.ask()
        assert (await stage.content(), await stage.snapshot(), stage.storage.snapshots) == (None, None, {})

    play(story)


def test_a_snapshot_is_taken_of_the_disk_that_the_claim_has_now(play: Play):
    """A user has restored its volume under the same name; the watch of PersistentVolumes is late."""

    async def story(stage: LateStage) -> None:
        await stage.seen()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        await stage.api.patch(PersistentVolume, "pv", UNHELD)
        await stage.api.delete(PersistentVolume, "pv")
        reference = {"namespace": "default", "name": "c", "uid": claim.uid}
        source = {"csi": {"driver": NAME, "volumeHandle": "w"}, "claimRef": reference}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})
        await stage.first.reconcile("default/s")
        assert await stage.volumes_of_contents() == ["w"]

    play(story)


def test_a_snapshot_is_taken_as_its_class_says_now(play: Play):
    """It would go with its VolumeSnapshot, and was to be kept."""

    async def story(stage: LateStage) -> None:
        await stage.seen()
        kept = {"metadata": {"name": "fast"}, "driver": NAME, "deletionPolicy": "Retain"}
        await stage.api.delete(VolumeSnapshotClass, "fast")
        await stage.api.create(VolumeSnapshotClass, kept)
        with pytest.raises(Conflict):
            await stage.first.reconcile("default/s")
        assert await stage.content() is None
        await stage.first.reconcile("default/s")
        content = await stage.content()
        assert content is not None
        assert content.spec.deletion_policy == "Retain"

    play(story)


@pytest.mark.parametrize("is_its_own", [True, False])
def test_a_snapshot_is_let_go_by_whose_the_content_is_now_that_it_names(play: Play, is_its_own: bool):
    """A person has given it the content of a former snapshot, which a late cache shows as that one's."""

    async def story(stage: LateStage) -> None:
        source = {"volumeSnapshotContentName": "kept"}
        named = {"metadata": {"name": "t", "finalizers": [SNAPSHOT_FINALIZER]}, "spec": {"source": source}}
        snapshot = await stage.api.create(VolumeSnapshot, named, "default")
        of = {"namespace": "default", "name": "t"}
        spec = {"driver": NAME, "deletionPolicy": "Delete", "source": {"snapshotHandle": "h"}}
        body = {"metadata": {"name": "kept"}, "spec": {**spec, "volumeSnapshotRef": {**of, "uid": "former"}}}
        await stage.api.create(VolumeSnapshotContent, body)
        await stage.seen()
        if is_its_own:
            bound = {"spec": {"volumeSnapshotRef": {"uid": snapshot.uid}}}
            await stage.api.patch(VolumeSnapshotContent, "kept", bound)
        await stage.api.delete(VolumeSnapshot, "t", "default")
        await stage.fill(stage.first, VolumeSnapshot)
        await stage.first.reconcile("default/t")
        assert (await stage.api.find(VolumeSnapshot, "t", "default") is not None) is is_its_own

    play(story)
