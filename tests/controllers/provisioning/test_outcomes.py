"""What becomes of a claim for which the storage makes nothing, or may have made something."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from msgspec.structs import replace
from provisioning_scenes import events, restarted, storage_says, waiting_claim
from requests_sent import marked

from mooring.controllers.provisioning.begun_claims import LATEST_REQUEST_S
from mooring.controllers.provisioning.decide import BEGUN
from mooring.kube.client import WatchEvent
from mooring.kube.errors import Unreachable
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.simulation.checks.memory import remembered
from mooring.simulation.parts.array_plugin import DISK
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.errors import InvalidSpec, NotAsked, OutcomeUnknown, StorageFull, StorageRefused
from mooring.volumes.matching import SELECTED_NODE

CLAIM = ClaimKey("default/c")


async def tried(stage: ControllerStage, controller: Any, error: Exception) -> PersistentVolumeClaim:
    """The claim after the storage has said so."""
    storage_says(controller, error)
    with pytest.raises(type(error)):
        await controller.reconcile(CLAIM)
    return await stage.api.get(PersistentVolumeClaim, "c", "default")


@pytest.mark.parametrize(
    ("mode", "error", "another"),
    [
        ("WaitForFirstConsumer", StorageFull("no room"), True),
        ("WaitForFirstConsumer", StorageRefused("no such type"), False),
        ("Immediate", StorageFull("no room"), False),
    ],
)
def test_another_node_is_chosen_where_the_place_is_at_fault_and_the_scheduler_chooses_it(
    play: Play, mode: str, error: Exception, another: bool
):
    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage, mode=mode)
        await chosen(stage, controller)
        held = (await tried(stage, controller, error)).metadata
        assert (SELECTED_NODE not in held.annotations, BEGUN not in held.finalizers) == (another, another)
        assert await events(stage, controller) == [("Warning", "ProvisioningFailed")]

    play(story)


@pytest.mark.parametrize(
    ("restart", "error", "ends"),
    [
        pytest.param(True, StorageRefused("no"), True, id="the storage says that it has made nothing"),
        pytest.param(False, NotAsked("away"), True, id="no try of this process can have had an effect"),
        pytest.param(True, NotAsked("away"), False, id="not if a former process may have made something"),
        pytest.param(False, OutcomeUnknown("lost"), False, id="not if it is not known what came of it"),
    ],
)
def test_a_claim_that_is_deleted_goes_if_nothing_can_have_been_made_for_it(
    play: Play, restart: bool, error: Exception, ends: bool
):
    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        await tried(stage, controller, NotAsked("away"))
        if restart:
            controller = await restarted(stage)
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        await stage.fill(controller, PersistentVolumeClaim)
        if restart:  # the former one may be asking still
            assert BEGUN in (await tried(stage, controller, error)).metadata.finalizers
            await asyncio.sleep(LATEST_REQUEST_S)
        assert (BEGUN not in (await tried(stage, controller, error)).metadata.finalizers) is ends

    play(story)


async def cannot_ask(stage: ControllerStage, controller: Any) -> None:
    """The class is such by now that the storage cannot be asked."""
    body = {"metadata": {"name": "disk"}, "provisioner": DISK, "mountOptions": ["noatime"]}
    await stage.api.delete(StorageClass, "disk")
    controller.cache(StorageClass).accept(await stage.api.create(StorageClass, body))
    with pytest.raises(InvalidSpec, match="mount options"):
        await controller.reconcile(CLAIM)


def test_a_claim_stays_while_a_disk_may_be_there_though_the_storage_cannot_be_asked(play: Play):
    """That what is to be asked for is wrong by now says nothing of the try before."""

    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        await tried(stage, controller, OutcomeUnknown("lost"))
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        await stage.fill(controller, PersistentVolumeClaim)
        await cannot_ask(stage, controller)
        assert BEGUN in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers
        assert await events(stage, controller) == [("Warning", "ProvisioningFailed")] * 2

    play(story)


async def begun_and_deleted_with_its_source(stage: ControllerStage) -> Any:
    source = {"kind": "PersistentVolumeClaim", "name": "gone"}
    controller, _ = await waiting_claim(stage, dataSource=source)
    held = {"metadata": {"finalizers": [BEGUN]}}
    await stage.api.patch(PersistentVolumeClaim, "c", held, "default")
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    await stage.fill(controller, PersistentVolumeClaim)
    return controller


def test_what_may_be_there_for_a_claim_that_went_with_its_source_is_found_by_its_name(play: Play):
    async def story(stage: ControllerStage):
        controller = await begun_and_deleted_with_its_source(stage)
        await controller.reconcile(CLAIM)
        assert {each.name for each in (await stage.api.list(PersistentVolume)).items} == stage.array.disks
        assert len(stage.array.disks) == 1
        assert await stage.api.find(PersistentVolumeClaim, "c", "default") is None

    play(story)


def test_nothing_is_made_for_a_claim_that_went_with_its_source_where_nothing_can_be_there(play: Play):
    async def story(stage: ControllerStage):
        controller = await begun_and_deleted_with_its_source(stage)
        controller._begun._certain.add(controller.cache(PersistentVolumeClaim).get("default/c").uid)
        with pytest.raises(InvalidSpec):
            await controller.reconcile(CLAIM)
        assert stage.array.disks == set()
        assert await stage.api.find(PersistentVolumeClaim, "c", "default") is None

    play(story)


def test_a_claim_for_which_the_storage_was_never_asked_is_not_held(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        await cannot_ask(stage, controller)
        assert BEGUN not in (await stage.api.get(PersistentVolumeClaim, "c", "default")).metadata.finalizers

    play(story)


def test_a_claim_that_still_wants_its_volume_stays_begun_though_the_storage_refuses(play: Play):
    """Its storage is asked again."""

    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        assert BEGUN in (await tried(stage, controller, StorageRefused("no"))).metadata.finalizers

    play(story)


async def chosen(stage: ControllerStage, controller: Any, *finalizers: str) -> None:
    """The scheduler has chosen a node, and another process marked the claim, if there are `finalizers`."""
    if await stage.api.find(Node, "n") is None:
        await stage.api.create(Node, {"metadata": {"name": "n"}})
    metadata = {"annotations": {SELECTED_NODE: "n"}, **({"finalizers": [*finalizers]} if finalizers else {})}
    claim = await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": metadata}, "default")
    controller.cache(PersistentVolumeClaim).accept(claim)


async def unanswered(stage: ControllerStage, controller: Any) -> None:
    """The write of the claim takes effect, and has no answer; the watch tells of it."""
    stage.wire.unanswered(request("PATCH", "persistentvolumeclaims/c"))
    with pytest.raises(Unreachable):
        await controller.reconcile(CLAIM)
    await stage.fill(controller, PersistentVolumeClaim)


@pytest.mark.parametrize("given_back", ["known", "unanswered"])
@pytest.mark.parametrize("marked_by", ["another process", "this one, unanswered"])
def test_what_was_known_of_a_claim_does_not_count_after_it_was_given_back(
    play: Play, given_back: str, marked_by: str
):
    """Another process, which has lost its lease and does not know it yet, may have marked it, and asked the
    storage. The claim is not looked at in between (40507 of the swarm)."""

    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage, mode="WaitForFirstConsumer")
        await chosen(stage, controller)
        if given_back == "known":
            await tried(stage, controller, StorageFull("no room"))
        else:
            await tried(stage, controller, NotAsked("away"))
            storage_says(controller, StorageFull("no room"))
            await unanswered(stage, controller)
        if marked_by == "another process":
            await chosen(stage, controller, BEGUN)
        else:
            await chosen(stage, controller)
            await unanswered(stage, controller)
        held = (await tried(stage, controller, StorageFull("no room"))).metadata
        assert (SELECTED_NODE in held.annotations, BEGUN in held.finalizers) == (True, True)

    play(story)


def test_a_mark_that_is_gone_before_it_is_known_to_be_stored_makes_nothing_certain(play: Play):
    """The watch is faster than the answer, and tells that the mark was taken away."""

    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage, mode="WaitForFirstConsumer")
        await chosen(stage, controller)
        claims = controller.cache(PersistentVolumeClaim)
        claim = claims.get("default/c")
        held = stage.wire.hold(request("PATCH", "persistentvolumeclaims/c"))
        working = asyncio.create_task(tried(stage, controller, StorageFull("no room")))
        await held.arrived.wait()
        without = replace(claim, metadata=replace(claim.metadata, resource_version="1000000"))
        claims.apply(WatchEvent("MODIFIED", without, "1000000"))
        held.release()
        assert BEGUN in (await working).metadata.finalizers

    play(story)


@pytest.mark.parametrize("end", ["it goes", "it has its volume"])
def test_nothing_is_remembered_of_a_claim_that_is_done_with(play: Play, end: str):
    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage)
        await tried(stage, controller, NotAsked("away"))
        assert [*remembered(controller, {claim.uid})] != []
        if end == "it goes":
            controller.cache(PersistentVolumeClaim).apply(WatchEvent("DELETED", claim, "1000000"))
        else:
            other = {"metadata": {"finalizers": None}, "spec": {"volumeName": "by-hand"}}
            bound = await stage.api.patch(PersistentVolumeClaim, "c", other, "default")
            controller.cache(PersistentVolumeClaim).accept(bound)
            await controller.reconcile(CLAIM)
        assert [*remembered(controller, {claim.uid})] == []

    play(story)


def test_nothing_is_remembered_of_a_claim_that_goes_while_its_node_is_read(play: Play):
    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage, mode="WaitForFirstConsumer")
        await chosen(stage, controller)
        storage_says(controller, NotAsked("away"))
        held = stage.wire.hold(request("GET", "nodes/n"))
        working = asyncio.create_task(controller.reconcile(CLAIM))
        await held.arrived.wait()
        controller.cache(PersistentVolumeClaim).apply(WatchEvent("DELETED", claim, "1000000"))
        held.release()
        with pytest.raises(NotAsked):
            await working
        assert [*remembered(controller, {claim.uid})] == []

    play(story)


@pytest.mark.parametrize("successor", [False, True])
def test_nothing_is_remembered_of_a_claim_that_goes_while_its_beginning_is_stored(
    play: Play, successor: bool
):
    """The watch told of its end before the answer came."""

    async def story(stage: ControllerStage):
        controller, claim = await waiting_claim(stage)
        storage_says(controller, NotAsked("away"))
        held = stage.wire.hold(request("PATCH", "persistentvolumeclaims/c"))
        working = asyncio.create_task(controller.reconcile(CLAIM))
        await held.arrived.wait()
        claims = controller.cache(PersistentVolumeClaim)
        claims.apply(WatchEvent("DELETED", claim, "1000000"))
        if successor:
            metadata = replace(claim.metadata, uid="another", resource_version="1000001")
            claims.apply(WatchEvent("ADDED", replace(claim, metadata=metadata), "1000001"))
        held.release()
        with pytest.raises(NotAsked):
            await working
        await marked(controller)
        assert [*remembered(controller, {claim.uid})] == []

    play(story)
