"""What keeps a volume from being reclaimed, and what is said of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from claims_and_volumes import claim, volume
from controller_stage import ControllerStage, Play
from msgspec.structs import replace
from provisioning_scenes import released
from requests_sent import brief, marked, told, writes

from mooring.controllers.provisioning.reclaim import has_no_claim, may_have_mounted
from mooring.kube.client import WatchEvent
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.keys import VolumeKey
from mooring.kube.objects import ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.checks.memory import remembered
from mooring.simulation.parts.array_plugin import DISK
from mooring.simulation.parts.faulty_transport import request

VOLUME = VolumeKey("pv")


@pytest.mark.parametrize(
    ("pv", "found", "gone"),
    [
        pytest.param(volume(), None, False, id="it never had one"),
        pytest.param(volume(to=""), None, False, id="it is reserved for one to come"),
        pytest.param(volume(to="u"), None, True, id="its claim is gone"),
        pytest.param(volume(to="u"), claim(uid="successor"), True, id="another one has its name"),
        pytest.param(volume(to="u"), claim(volume_name="other"), True, id="its claim has another volume"),
        pytest.param(volume(to="u"), claim(volume_name="pv"), False, id="its claim has it"),
        pytest.param(volume(to="u"), claim(), False, id="its claim is about to have it"),
    ],
)
def test_a_volume_has_no_claim_any_more(
    pv: PersistentVolume, found: PersistentVolumeClaim | None, gone: bool
):
    assert has_no_claim(pv, found) is gone


def pod(name: str, created: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, creation_timestamp=created))


OLD, YOUNG = pod("old", "2030-01-01T00:00:00Z"), pod("young", "2030-01-01T00:00:02Z")


def born(uid: str) -> PersistentVolumeClaim:
    found = claim(uid=uid)
    return replace(found, metadata=replace(found.metadata, creation_timestamp="2030-01-01T00:00:01Z"))


@pytest.mark.parametrize(
    ("to", "of_that_name", "attached", "users"),
    [
        pytest.param("u", None, False, [OLD, YOUNG], id="all, where no other claim can be meant"),
        pytest.param("u", born("u"), False, [], id="none of its claim, which has another volume"),
        pytest.param("u", born("successor"), False, [OLD], id="those that are older than the next claim"),
        pytest.param("u", born("successor"), True, [], id="none, where its attachments tell"),
        pytest.param(None, born("u"), False, [OLD], id="the same of a volume that names no claim"),
    ],
)
def test_pods_that_may_have_mounted_the_volume(
    to: str | None, of_that_name: PersistentVolumeClaim | None, attached: bool, users: list[Pod]
):
    assert may_have_mounted([OLD, YOUNG], volume(to=to), of_that_name, attached=attached) == users


def test_what_no_plugin_deletes_fails_and_says_so_once(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage, by="", nfs={"server": "s", "path": "/p"})
        for _ in range(2):
            await controller.reconcile(VOLUME)
        why = "no volume plugin deletes such volumes: delete it by hand, or set its reclaim policy to Retain"
        status = (await stage.api.get(PersistentVolume, "pv")).status
        assert (status.phase, status.message) == ("Failed", why)
        assert await told(stage, controller) == [
            ("PersistentVolume pv", "Warning", "VolumeFailedDelete", why)
        ]

    play(story)


def test_what_no_plugin_deletes_does_not_fail_while_its_claim_is_there(play: Play):
    async def story(stage: ControllerStage):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = await stage.api.create(
            PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": spec}, "default"
        )
        controller = await released(stage, made.uid, by="", nfs={"server": "s", "path": "/p"})
        await controller.reconcile(VOLUME)
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Released"

    play(story)


@pytest.mark.parametrize(
    "source",
    [
        {"csi": {"driver": "disk.example.com", "volumeHandle": "d"}},
        {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    ],
)
def test_volumes_of_drivers_that_administrators_made_are_left_to_the_drivers(
    play: Play, source: dict[str, Any]
):
    async def story(stage: ControllerStage):
        controller = await released(stage, by="", **source)
        await controller.reconcile(VOLUME)
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Released"

    play(story)


def fails(controller: Any, why: str) -> None:
    """The storage deletes nothing."""

    class Deleter:
        async def delete(self) -> None:
            raise RuntimeError(why)

    (plugin,) = controller._plugins.plugins
    plugin.new_deleter = lambda spec: Deleter()


def test_a_storage_that_fails_to_delete_is_quoted_in_event_and_status(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        for why in ("the array is on fire", "the array is gone"):
            fails(controller, why)
            with pytest.raises(RuntimeError):
                await controller.reconcile(VOLUME)
            status = (await stage.api.get(PersistentVolume, "pv")).status
            assert (status.phase, status.message) == ("Failed", why)
        assert await told(stage, controller) == [
            ("PersistentVolume pv", "Warning", "VolumeFailedDelete", "the array is gone"),
            ("PersistentVolume pv", "Warning", "VolumeFailedDelete", "the array is on fire"),
        ]

    play(story)


def test_why_a_volume_could_not_be_deleted_does_not_end_its_backoff(play: Play):
    """Each answer of a cloud says another number of its request."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        fails(controller, "request 1 failed")
        with pytest.raises(RuntimeError):
            await controller.reconcile(VOLUME)
        await marked(controller)
        fails(controller, "request 2 failed")
        with pytest.raises(RuntimeError):
            await controller.reconcile(VOLUME)
        assert await marked(controller) == []

    play(story)


def test_a_failure_that_could_not_be_stored_is_stored_by_the_next_try(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        fails(controller, "on fire")
        stage.wire.lose(request("PATCH", "persistentvolumes/pv/status"))
        with pytest.raises(Unreachable):  # which is the newer trouble
            await controller.reconcile(VOLUME)
        with pytest.raises(RuntimeError):
            await controller.reconcile(VOLUME)
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Failed"

    play(story)


def test_a_volume_has_failed_again_although_its_message_was_left_from_before(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        left = {"status": {"phase": "Released", "message": "on fire"}}
        pv = await stage.api.patch(PersistentVolume, "pv", left, subresource="status")
        controller.cache(PersistentVolume).accept(pv)
        fails(controller, "on fire")
        with pytest.raises(RuntimeError):
            await controller.reconcile(VOLUME)
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Failed"

    play(story)


def test_a_volume_that_is_gone_needs_no_deletion(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await controller.reconcile(VOLUME)
        assert stage.array.disks == {"d"}, "who made it go has left its disk"

    play(story)


def test_a_volume_that_was_let_go_is_not_let_go_again_when_its_deletion_got_no_answer(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        held = {"metadata": {"finalizers": ["mooring.dev/provisioned", "example.com/hold"]}}
        controller.cache(PersistentVolume).accept(await stage.api.patch(PersistentVolume, "pv", held))
        stage.wire.lose(lambda each: each.method == "DELETE")
        with pytest.raises(Unreachable):
            await controller.reconcile(VOLUME)
        sent = writes(stage.wire)
        await controller.reconcile(VOLUME)
        assert [brief(each) for each in sent] == ["DELETE persistentvolumes/pv, the same"]

    play(story)


def test_all_volumes_are_asked_for_only_where_a_person_may_have_named_one_twice(play: Play):
    """A provisioner gives each volume a name of its own."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        before = len(stage.wire.sent)
        await controller.reconcile(VOLUME)
        assert "GET /api/v1/persistentvolumes" not in stage.wire.sent[before:]
        assert stage.array.disks == set()

    play(story)


def test_a_volume_that_cannot_be_understood_keeps_no_other_from_being_deleted(play: Play):
    """It names no disk. An iscsi volume, say, whose portal is a name, is no better."""

    async def story(stage: ControllerStage):
        controller = await released(stage, by="")
        source = {"flexVolume": {"driver": DISK}}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
        await stage.api.create(PersistentVolume, {"metadata": {"name": "odd"}, "spec": spec})
        await controller.reconcile(VOLUME)
        assert stage.array.disks == set()

    play(story)


def test_a_volume_of_another_uid_is_not_deleted_in_the_place_of_a_former_one(play: Play):
    """It was made again, released too, and names the same disk; the cache does not show it."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await released(stage)
        await controller.reconcile(VOLUME)
        assert stage.array.disks == {"d"}
        assert not (await stage.api.get(PersistentVolume, "pv")).deleting

    play(story)


def test_a_volume_that_is_made_again_while_its_disk_is_deleted_stays_in_the_api(play: Play):
    """And nothing is remembered of its predecessor."""

    async def story(stage: ControllerStage):
        controller = await released(stage)
        volumes = controller.cache(PersistentVolume)
        former = volumes.get("pv")

        def told_meanwhile(actor: str, kind: str, **fields: Any) -> None:
            successor = replace(
                former, metadata=replace(former.metadata, uid="another", resource_version="999")
            )
            volumes.apply(WatchEvent("DELETED", former, "998"))
            volumes.apply(WatchEvent("ADDED", successor, "999"))

        stage.array.journal = told_meanwhile
        await controller.reconcile(VOLUME)
        assert [*remembered(controller, {former.uid})] == []

    play(story)


def test_nothing_is_remembered_of_a_volume_that_is_gone(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        pv = await stage.api.get(PersistentVolume, "pv")
        await controller.reconcile(VOLUME)
        assert [*remembered(controller, {pv.uid})] != []
        controller.cache(PersistentVolume).apply(WatchEvent("DELETED", pv, "1000000"))
        assert [*remembered(controller, {pv.uid})] == []

    play(story)


def test_a_volume_that_was_made_again_after_its_disk_was_deleted_is_not_deleted_for_it(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        stage.wire.lose(lambda each: each.method == "DELETE")
        with pytest.raises(Unreachable):
            await controller.reconcile(VOLUME)
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await released(stage)
        with pytest.raises(Conflict):
            await controller.reconcile(VOLUME)
        assert not (await stage.api.get(PersistentVolume, "pv")).deleting

    play(story)


RETAINED = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
OFFERED_AGAIN = {"spec": {"claimRef": None}}


@pytest.mark.parametrize("change", [RETAINED, OFFERED_AGAIN])
@pytest.mark.parametrize("policy", ["Delete", "Recycle"])
def test_a_volume_that_is_saved_while_it_is_asked_who_uses_it_keeps_its_data(
    play: Play, change: dict[str, Any], policy: str
):
    """All pods of a namespace are listed: the answer may be seconds away."""

    async def story(stage: ControllerStage):
        controller = await released(stage, policy=policy)
        held = stage.wire.hold(request("GET", "/pods"))
        reclaiming = asyncio.create_task(controller.reconcile(VOLUME))
        await held.arrived.wait()
        saved = await stage.api.patch(PersistentVolume, "pv", change)
        controller.cache(PersistentVolume).accept(saved)
        held.release()
        await reclaiming
        assert stage.array.disks == {"d"}
        assert await stage.api.get(PersistentVolume, "pv") == saved

    play(story)


def test_a_volume_that_a_late_cache_shows_with_its_former_claim_is_not_reclaimed(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        await stage.api.patch(PersistentVolume, "pv", OFFERED_AGAIN)
        await controller.reconcile(VOLUME)
        assert stage.array.disks == {"d"}

    play(story)
