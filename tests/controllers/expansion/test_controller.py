"""What the resizer writes, and in which order. The test plays the node's part."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import pytest
from controller_stage import ControllerStage, Play
from requests_sent import marked

from mooring.apiserver import Server
from mooring.controllers.expansion.controller import ExpansionController
from mooring.csi.errors import Code, CsiError
from mooring.kube.errors import KubeError
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.simulation.checks.memory import remembered
from mooring.volumes.errors import InvalidSpec, SizeInfeasible, VolumeError, VolumeNotFound
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.interfaces import ExpandableVolumePlugin, Expansion
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.hostpath import HostPathPlugin
from mooring.volumes.spec import VolumeSpec

MIB = 1024 * 1024


class Elastic(HostPathPlugin, ExpandableVolumePlugin):
    """Grows by whole 100 MiB, to `most` bytes at most."""

    on_node = True
    most = 2**62
    failure: Exception | None = None
    meanwhile: Callable[[], object] = list

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        self.asked.append(new_size)
        self.meanwhile()
        if self.failure is not None:
            raise self.failure
        assert len(self.asked) < 10, "it is asked without a pause"
        return Expansion(min(-(-new_size // (100 * MIB)) * 100 * MIB, self.most), self.on_node)


class ResizerStage(ControllerStage):
    """A bound claim c of volume pv, class k, and a controller whose cache is kept up to date."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        super().__init__(server, now)
        # The namespace of the bundled plugin is reserved; this one is made here.
        self.plugin = Elastic()
        self.plugin.get_plugin_name = lambda: "example.com/elastic"  # type: ignore[method-assign]
        manager = PluginManager([self.plugin], ControllerVolumeHost(now))
        self.controller = self.make(ExpansionController, plugins=manager)

    async def set_up(self, grows: bool = True) -> None:
        body = {
            "metadata": {"name": "k"},
            "provisioner": "example.com/elastic",
            "allowVolumeExpansion": grows,
        }
        self.controller.cache(StorageClass).accept(await self.api.create(StorageClass, body))
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "k", "volumeName": "pv"}
        requests = {"resources": {"requests": {"storage": "100Mi"}}}
        claim = {"metadata": {"name": "c"}, "spec": {**spec, **requests}}
        made = await self.api.create(PersistentVolumeClaim, claim, "default")
        status = {"status": {"phase": "Bound", "capacity": {"storage": "100Mi"}}}
        await self.api.patch(PersistentVolumeClaim, "c", status, "default", subresource="status")
        volume = {
            "capacity": {"storage": "100Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "k",
            "hostPath": {"path": "/srv/data"},
            "claimRef": {"namespace": "default", "name": "c", "uid": made.uid},
        }
        await self.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": volume})

    async def ask(self, size: str) -> None:
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        await self.api.patch(PersistentVolumeClaim, "c", patch, "default")

    async def step(self) -> PersistentVolumeClaim:
        await self.fill(self.controller, PersistentVolumeClaim, PersistentVolume)
        await self.controller.reconcile("default/c")
        return await self.api.get(PersistentVolumeClaim, "c", "default")

    async def capacity(self) -> Any:
        return (await self.api.get(PersistentVolume, "pv")).spec.capacity["storage"]

    async def events(self) -> list[str]:
        writing = asyncio.create_task(self.controller.recorder.run())
        await self.controller.recorder.flush()
        writing.cancel()
        return sorted(event.reason for event in (await self.api.list(Event)).items)


def conditions(claim: PersistentVolumeClaim) -> list[str]:
    return [each.type for each in claim.status.conditions]


@pytest.fixture
def play(play: Play) -> Play:
    return partial(play, stage=ResizerStage)


def test_first_the_storage_then_the_volume_then_the_node_is_asked(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        assert conditions(await stage.step()) == ["Resizing"]
        assert await stage.capacity() == "200Mi"
        assert conditions(await stage.step()) == ["FileSystemResizePending"]
        last = await stage.step()
        assert last.status.capacity["storage"] == "100Mi", "the file system has not grown yet"
        assert stage.plugin.asked == [150 * MIB]
        assert await stage.events() == ["FileSystemResizeRequired", "Resizing"]

    play(story)


def test_what_others_note_on_a_claim_or_its_volume_does_not_end_its_backoff(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        await stage.step()
        await stage.fill(stage.controller, PersistentVolumeClaim, PersistentVolume)
        await marked(stage.controller)
        note = {"metadata": {"labels": {"example.com/seen": "yes"}}}
        await stage.api.patch(PersistentVolumeClaim, "c", note, "default")
        await stage.api.patch(PersistentVolume, "pv", note)
        await stage.fill(stage.controller, PersistentVolumeClaim, PersistentVolume)
        assert await marked(stage.controller) == []
        await stage.ask("250Mi")
        await stage.fill(stage.controller, PersistentVolumeClaim)
        assert await marked(stage.controller) == ["default/c"]

    play(story)


def test_the_status_says_what_size_is_aimed_at_and_how_far_it_is(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        begun = await stage.step()
        assert begun.status.allocated_resources == {"storage": "150Mi"}
        assert begun.status.allocated_resource_statuses == {"storage": "ControllerResizeInProgress"}
        asked = await stage.step()
        assert asked.status.allocated_resource_statuses == {"storage": "NodeResizePending"}

    play(story)


def test_a_growth_that_is_done_leaves_no_status_but_the_size_that_was_aimed_at(play: Play):
    async def story(stage: ResizerStage):
        stage.plugin.on_node = False
        await stage.set_up()
        await stage.ask("150Mi")
        await stage.step()
        done = (await stage.step()).status
        assert (done.allocated_resources, done.allocated_resource_statuses) == ({"storage": "150Mi"}, {})

    play(story)


def test_without_a_file_system_the_claim_has_its_size_at_once(play: Play):
    async def story(stage: ResizerStage):
        stage.plugin.on_node = False
        await stage.set_up()
        await stage.ask("150Mi")
        await stage.step()
        done = await stage.step()
        assert done.status.capacity["storage"] == "200Mi"
        assert conditions(done) == []
        assert await stage.events() == ["Resizing", "VolumeResizeSuccessful"]

    play(story)


def test_a_class_that_does_not_allow_it_is_named(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")  # admitted, and forbidden then
        forbidden = await stage.api.patch(StorageClass, "k", {"allowVolumeExpansion": False})
        stage.controller.cache(StorageClass).accept(forbidden)
        await stage.step()
        assert stage.plugin.asked == []
        assert await stage.events() == ["VolumeResizeFailed"]

    play(story)


def test_a_storage_that_cannot_grow_it_is_quoted_and_asked_again(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        stage.plugin.failure = OSError("the shelf is full")
        for _ in range(2):
            with pytest.raises(OSError, match="full"):
                await stage.step()
        assert await stage.events() == ["Resizing", "VolumeResizeFailed"]
        stage.plugin.failure = None
        await stage.step()
        assert await stage.capacity() == "200Mi"

    play(story)


@pytest.mark.parametrize("most", [100 * MIB, 120 * MIB])
def test_a_volume_that_grew_by_too_little_has_not_grown_and_is_asked_for_again_after_a_pause(
    play: Play, most: int
):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        stage.plugin.most = most
        for tries in (1, 2):
            with pytest.raises(VolumeError, match=f"{most} bytes.*{150 * MIB}"):
                await stage.step()
            assert len(stage.plugin.asked) == tries
        assert await stage.events() == ["Resizing", "VolumeResizeFailed"]
        stage.plugin.most = 200 * MIB
        await stage.step()
        assert await stage.capacity() == "200Mi"

    play(story)


TOO_LARGE = SizeInfeasible("at most 120 MiB")


@pytest.mark.parametrize(
    "failure", [TOO_LARGE, InvalidSpec("at most 120 MiB"), VolumeNotFound("at most 120 MiB")]
)
def test_a_size_that_the_storage_can_never_give_is_told_once_with_what_to_do(play: Play, failure: Exception):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        stage.plugin.failure = failure
        told: list[PersistentVolumeClaim] = []
        for _ in range(3):
            with pytest.raises(type(failure)):
                await stage.step()
            told.append(await stage.api.get(PersistentVolumeClaim, "c", "default"))
        assert told[0].status.allocated_resource_statuses == {"storage": "ControllerResizeInfeasible"}
        assert conditions(told[0]) == ["Resizing", "ControllerResizeError"]
        message = told[0].status.conditions[1].message
        assert "at most 120 MiB" in message and "ask for less, but for more than 100Mi" in message
        assert told[2].metadata.resource_version == told[0].metadata.resource_version, (
            "each try would wake it again"
        )

    play(story)


def test_a_failure_that_may_pass_is_not_infeasible(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        stage.plugin.failure = CsiError(Code.UNAVAILABLE, "later")
        with pytest.raises(CsiError):
            await stage.step()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert claim.status.allocated_resource_statuses == {"storage": "ControllerResizeInProgress"}
        assert conditions(claim) == ["Resizing"]

    play(story)


def test_a_claim_that_asks_for_less_after_that_gets_it(play: Play):
    async def story(stage: ResizerStage):
        stage.plugin.on_node = False
        await stage.set_up()
        await stage.ask("250Mi")
        stage.plugin.failure = TOO_LARGE
        with pytest.raises(SizeInfeasible):
            await stage.step()
        await stage.ask("110Mi")
        stage.plugin.failure = None
        for _ in range(3):
            claim = await stage.step()
        assert stage.plugin.asked[-1] == 110 * MIB
        assert claim.status.capacity == {"storage": "200Mi"}, "which is what the storage gives for 110Mi"
        assert claim.status.allocated_resources == {"storage": "110Mi"}
        assert conditions(claim) == [] and not claim.status.allocated_resource_statuses

    play(story)


def test_nothing_is_remembered_of_a_volume_that_goes_while_it_grows(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        gone = await stage.api.get(PersistentVolume, "pv")
        stage.plugin.meanwhile = lambda: stage.controller.cache(PersistentVolume)._store("pv", None)
        with contextlib.suppress(KubeError):
            await stage.step()
        assert stage.plugin.asked == [150 * MIB]
        assert [*remembered(stage.controller, {gone.uid})] == []

    play(story)


@pytest.mark.parametrize("anew", [False, True])
def test_nothing_is_remembered_of_a_volume_that_goes_before_its_growth_is_done(play: Play, anew: bool):
    """Found by the simulation (2000537 of the swarm, L18). A watch that was broken may tell of it and of
    another one of its name at once."""

    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("150Mi")
        await stage.step()
        gone = await stage.api.get(PersistentVolume, "pv")
        assert [*remembered(stage.controller, {gone.uid})] != []
        other = msgspec.structs.replace(gone.metadata, uid="another", resource_version="999999")
        stage.controller.cache(PersistentVolume)._store(
            "pv", msgspec.structs.replace(gone, metadata=other) if anew else None
        )
        assert [*remembered(stage.controller, {gone.uid})] == []

    play(story)
