"""The two halves, each alone and both together, with a CSI driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from crashes import crashed_under
from played_driver import NAME, Failing, Storage, plugin

from mooring.cluster.snapshot_kinds import DEFINITIONS
from mooring.controllers.snapshots.controller import SnapshotController
from mooring.controllers.snapshots.names import BEING_CREATED
from mooring.controllers.snapshots.snapshotter import SnapshotterController
from mooring.csi.errors import Code
from mooring.kube.errors import NotFound
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.volumes.errors import OutcomeUnknown, StorageRefused
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.plugin_manager import PluginManager

Desk = Callable[[Any], Any]


class Bench:
    """A bound claim c of the volume v; the first half knows no driver."""

    def __init__(self, desk: Any) -> None:
        self.api, self.storage = desk.api, Storage()
        self.desk = desk
        self.start()

    def start(self) -> None:
        """Both halves, or their successors."""
        desk = self.desk
        none = PluginManager([], ControllerVolumeHost(desk.now))
        host = ControllerVolumeHost(desk.now, {CSI_PLUGIN: {NAME: "here"}}, desk.api)
        self.first = desk.make(SnapshotController, plugins=none)
        self.second = desk.make(SnapshotterController, plugins=PluginManager([plugin(self.storage)], host))

    async def set_up(self) -> None:
        for body in DEFINITIONS:
            await self.api.create(CustomResourceDefinition, body)
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        source = {"csi": {"driver": NAME, "volumeHandle": "v"}}
        await self.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})
        asked = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pv",
        }
        await self.api.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": asked}, "default")
        bound = {"status": {"phase": "Bound"}}
        await self.api.patch(PersistentVolumeClaim, "c", bound, "default", subresource="status")
        of_class = {"metadata": {"name": "fast"}, "driver": NAME, "deletionPolicy": "Delete"}
        await self.api.create(VolumeSnapshotClass, of_class)
        source = {"persistentVolumeClaimName": "c"}
        body = {"metadata": {"name": "s"}, "spec": {"source": source, "volumeSnapshotClassName": "fast"}}
        await self.api.create(VolumeSnapshot, body, "default")

    async def content(self) -> VolumeSnapshotContent | None:
        found = (await self.api.list(VolumeSnapshotContent)).items
        return found[0] if found else None

    async def snapshot(self) -> VolumeSnapshot | None:
        return await self.api.find(VolumeSnapshot, "s", "default")

    async def ask(self) -> None:
        """Runs the first half, with caches that are filled anew."""
        self.start()
        for informer in self.first.caches:
            for found in (await self.api.list(informer.kind)).items:
                informer.accept(found)
        await self.first.reconcile("default/s")

    async def take(self) -> None:
        """Runs the second half."""
        content = await self.content()
        if content is not None:
            self.second._contents.accept(content)
            await self.second.reconcile(content.name)


def play(desk: Desk, story: Callable[[Bench], Any]) -> None:
    async def scene(desk: Any) -> None:
        bench = Bench(desk)
        await bench.set_up()
        await story(bench)

    desk(scene)


def test_a_snapshot_gets_ready_and_goes(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.ask()
        told = await bench.snapshot()
        assert told is not None
        assert told.status.bound_volume_snapshot_content_name == f"snapcontent-{told.uid}"
        assert not told.status.ready_to_use
        await bench.take()
        await bench.take()  # the driver is not ready at the first call
        await bench.ask()
        ready = await bench.snapshot()
        assert ready is not None
        assert ready.status.ready_to_use
        assert list(bench.storage.snapshots) == [f"snapshot-{ready.uid}"], "as upstream calls it"
        content = await bench.content()
        assert content is not None
        assert BEING_CREATED not in content.metadata.annotations
        await bench.api.delete(VolumeSnapshot, "s", "default")
        await bench.ask()
        await bench.take()
        assert bench.storage.snapshots == {}
        await bench.ask()
        assert await bench.content() is None
        assert await bench.snapshot() is None

    play(desk, story)


def test_a_content_that_a_user_deletes_stays_while_its_snapshot_does(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.ask()
        await bench.take()
        content = await bench.content()
        assert content is not None
        await bench.api.delete(VolumeSnapshotContent, content.name)
        await bench.take()
        assert len(bench.storage.snapshots) == 1

    play(desk, story)


def test_a_snapshot_whose_creation_was_not_answered_is_deleted_with_its_content(desk: Desk):
    async def story(bench: Bench) -> None:
        bench.storage.failing["CreateSnapshot"] = Failing([Code.DEADLINE_EXCEEDED], after=True)
        await bench.ask()
        with pytest.raises(OutcomeUnknown):
            await bench.take()
        content = await bench.content()
        assert content is not None
        assert BEING_CREATED in content.metadata.annotations
        assert content.status.error is not None
        assert len(bench.storage.snapshots) == 1
        await bench.api.delete(VolumeSnapshot, "s", "default")
        await bench.ask()
        await bench.take()
        assert bench.storage.snapshots == {}
        assert await bench.content() is None

    play(desk, story)


def test_a_refusal_is_told_on_the_snapshot_and_leaves_nothing_to_wait_for(desk: Desk):
    async def story(bench: Bench) -> None:
        bench.storage.failing["CreateSnapshot"] = Failing([Code.INVALID_ARGUMENT])
        await bench.ask()
        with pytest.raises(StorageRefused):
            await bench.take()
        await bench.ask()
        told = await bench.snapshot()
        assert told is not None
        assert told.status.error is not None
        assert "as the test asked" in told.status.error.message
        await bench.api.delete(VolumeSnapshot, "s", "default")
        await bench.ask()
        await bench.take()
        assert await bench.content() is None
        assert bench.storage.methods() == ["CreateSnapshot"]

    play(desk, story)


def test_an_error_goes_when_the_snapshot_is_taken_after_all(desk: Desk):
    async def story(bench: Bench) -> None:
        bench.storage.failing["CreateSnapshot"] = Failing([Code.UNAVAILABLE])
        await bench.ask()
        with pytest.raises(OutcomeUnknown):
            await bench.take()
        await bench.ask()
        await bench.take()
        await bench.take()
        await bench.ask()
        told = await bench.snapshot()
        assert told is not None
        assert told.status.error is None
        assert told.status.ready_to_use

    play(desk, story)


def test_a_snapshot_that_exists_is_bound_to_the_one_that_names_it(desk: Desk):
    async def story(bench: Bench) -> None:
        reference = {"namespace": "default", "name": "s2"}
        spec = {"deletionPolicy": "Retain", "driver": NAME, "source": {"snapshotHandle": "h"}}
        body = {"metadata": {"name": "kept"}, "spec": {**spec, "volumeSnapshotRef": reference}}
        await bench.api.create(VolumeSnapshotContent, body)
        source = {"volumeSnapshotContentName": "kept"}
        await bench.api.create(
            VolumeSnapshot, {"metadata": {"name": "s2"}, "spec": {"source": source}}, "default"
        )
        for each in (VolumeSnapshot, VolumeSnapshotContent):
            informer = bench.first._snapshots if each is VolumeSnapshot else bench.first._contents
            for found in (await bench.api.list(each)).items:
                informer.accept(found)
        await bench.first.reconcile("default/s2")
        await bench.take()
        content = await bench.content()
        snapshot = await bench.api.get(VolumeSnapshot, "s2", "default")
        assert content is not None
        assert content.spec.volume_snapshot_ref.uid == snapshot.uid
        assert content.status.snapshot_handle == "h"

    play(desk, story)


async def live(bench: Bench) -> None:
    """A snapshot becomes ready; then it is deleted, and gone."""
    for _ in range(3):
        await bench.ask()
        await bench.take()
    await bench.api.delete(VolumeSnapshot, "s", "default")
    for _ in range(3):
        await bench.ask()
        await bench.take()


@pytest.mark.parametrize("after", [False, True], ids=["before the request", "after its effect"])
def test_killed_at_every_request_no_snapshot_is_left_behind(desk: Desk, after: bool):
    async def story(desk: Any, number: int) -> bool:
        bench = Bench(desk)
        await bench.set_up()
        desk.wire.crash_at(number, after=after)
        more = await crashed_under(desk.wire, live(bench))
        bench.start()
        with suppress(NotFound):
            await bench.api.delete(VolumeSnapshot, "s", "default")
        for _ in range(3):
            await bench.ask()
            await bench.take()
        assert bench.storage.snapshots == {}
        assert await bench.content() is None
        assert await bench.snapshot() is None
        return more

    number = 0
    while desk(lambda at: story(at, number)):  # noqa: B023
        number += 1
    assert number > 30
