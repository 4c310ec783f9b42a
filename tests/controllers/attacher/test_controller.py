"""What the attacher writes before and after it asks the storage."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from disk_record import reconciled, wanted

from mooring.controllers.attacher.controller import VERIFY, AttacherController
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.kube.transport import Request, Response, Transport
from mooring.simulation.parts.array_plugin import ArrayPlugin, _Attacher
from mooring.simulation.parts.faulty_transport import admin
from mooring.volumes.errors import DeviceStillInUse, VolumeNotFound
from mooring.volumes.interfaces import BulkVolumeVerifier

FINALIZER = "mooring.dev/attacher"


def test_finalizer_and_time_of_the_request_are_stored_before_the_storage_is_asked(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        whole, seen = stage.array.attach, []

        async def attach(disk: str, node: str) -> None:
            record = await stage.api.get(VolumeAttachment, "va")
            seen.append((FINALIZER in record.metadata.finalizers, *record.metadata.annotations))
            await whole(disk, node)

        stage.array.attach = attach
        done = await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        assert done.status.attached
        assert done.status.attachment_metadata == {"devicePath": "/dev/d"}
        ((held, *annotations),) = seen
        assert held
        assert "mooring.dev/attach-requested-at" in annotations

    play(story)


class Refuses:
    """An API server that cannot keep what it was told last: each status is refused, and reads show what was
    so before."""

    def __init__(self, inner: Transport) -> None:
        self._inner, self.refused = inner, 0

    async def send(self, request: Request) -> Response:
        if not request.path.endswith("/status"):
            return await self._inner.send(request)
        self.refused += 1
        return Response(409, {}, b'{"kind": "Status", "reason": "Conflict", "code": 409}')

    async def close(self) -> None:
        await self._inner.close()


def test_what_is_refused_all_the_time_is_left_to_the_workers_backoff(play: Play):
    """33004147 of `fencing-by-storage.yaml`: it was written as fast as the API server answered."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        refuses = Refuses(admin(stage.server))
        controller = stage.make(AttacherController, Client(refuses), plugins=stage.plugins())
        with pytest.raises(Conflict):
            await asyncio.wait_for(reconciled(stage, controller), 60)
        assert refuses.refused == 5

    play(story)


def test_the_record_goes_only_after_the_storage_says_that_it_is_detached(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        controller = stage.make(AttacherController, plugins=stage.plugins())
        await reconciled(stage, controller)
        await stage.api.delete(VolumeAttachment, "va")
        stage.array.mounted.add(("d", "n"))
        with pytest.raises(DeviceStillInUse):
            await reconciled(stage, controller)
        held = await stage.api.get(VolumeAttachment, "va")
        assert FINALIZER in held.metadata.finalizers
        assert "still uses it" in held.status.detach_error.message
        stage.array.mounted.clear()
        assert await reconciled(stage, controller) is None
        assert stage.array.attached == {}

    play(story)


def test_a_record_that_another_finalizer_keeps_is_let_go_once(play: Play):
    """What it has written itself is in the cache, whatever the watch shows yet."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        controller = stage.make(AttacherController, plugins=stage.plugins())
        held = await reconciled(stage, controller)
        finalizers = [*held.metadata.finalizers, "example.com/hold"]
        await stage.api.revise(held, {"metadata": {"finalizers": finalizers}}, any_version=True)
        await stage.api.delete(VolumeAttachment, "va")
        kept = await reconciled(stage, controller)
        assert kept.metadata.finalizers == ("example.com/hold",)
        assert controller.cache(VolumeAttachment).get("va") == kept

    play(story)


def test_what_the_storage_says_against_an_attach_is_in_the_record_until_it_succeeds(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        stage.array.disks.clear()
        controller = stage.make(AttacherController, plugins=stage.plugins())
        with pytest.raises(VolumeNotFound):
            await reconciled(stage, controller)
        failed = await stage.api.get(VolumeAttachment, "va")
        assert "no volume d" in failed.status.attach_error.message
        assert not failed.status.attached
        stage.array.disks.add("d")
        done = await reconciled(stage, controller)
        assert (done.status.attached, done.status.attach_error) == (True, None)
        # 8000069 of `fencing-by-storage.yaml`: what an earlier try had to say arrived after that
        late = {"status": {"attachError": {"time": "2030-01-01T00:00:00Z", "message": "no volume d"}}}
        await stage.api.patch(VolumeAttachment, "va", late, subresource="status")
        done = await reconciled(stage, controller)
        assert (done.status.attached, done.status.attach_error) == (True, None)

    play(story)


def test_a_record_whose_attach_was_refused_goes_although_its_volume_is_not_defined_any_more(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        stage.array.disks.clear()
        controller = stage.make(AttacherController, plugins=stage.plugins())
        with pytest.raises(VolumeNotFound):
            await reconciled(stage, controller)
        await stage.api.delete(PersistentVolume, "pv")
        await stage.api.delete(VolumeAttachment, "va")
        assert await reconciled(stage, controller) is None

    play(story)


def test_a_record_that_was_never_acted_upon_is_left_to_go(play: Play):
    async def story(stage: ControllerStage):
        record = await wanted(stage)
        controller = stage.make(AttacherController, plugins=stage.plugins())
        await stage.api.delete(VolumeAttachment, "va", uid=record.uid)
        controller.cache(VolumeAttachment).accept(record)
        sent = len(stage.wire.sent)
        stage.array.disks.clear()
        with pytest.raises(Exception, match="not found"):
            # The cache is stale: the intent cannot be stored, so the storage is not asked.
            await controller.reconcile("va")
        assert len(stage.wire.sent) == sent + 1
        assert stage.array.history == []

    play(story)


async def attached(stage: ControllerStage) -> tuple[Any, Any]:
    """A controller, and its record of an attached volume."""
    await wanted(stage)
    controller = stage.make(AttacherController, plugins=stage.plugins())
    return controller, await reconciled(stage, controller)


async def verified(stage: ControllerStage, controller: Any) -> VolumeAttachment:
    await controller.reconcile(VERIFY)
    return await stage.api.get(VolumeAttachment, "va")


def test_what_the_storage_has_lost_is_attached_again(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await attached(stage)
        assert (await verified(stage, controller)).status.attached
        stage.array.attached.clear()
        assert not (await verified(stage, controller)).status.attached
        assert (await reconciled(stage, controller)).status.attached
        assert stage.array.attached == {"d": "n"}

    play(story)


def test_where_the_storage_says_that_it_is_now_is_recorded_and_it_stays_attached(play: Play):
    async def story(stage: ControllerStage):
        controller, record = await attached(stage)
        stage.array.vanish("d", "n")
        stage.array.appear("d", "n", "/dev/elsewhere")
        assert record.status.attachment_metadata == {"devicePath": "/dev/d"}
        found = await verified(stage, controller)
        assert (found.status.attached, found.uid) == (True, record.uid)
        assert found.status.attachment_metadata == {"devicePath": "/dev/elsewhere"}
        assert await verified(stage, controller) == found, "it is written once"

    play(story)


class Fails:
    """Nothing of one object is read or written: its requests have no answer."""

    def __init__(self, inner: Transport) -> None:
        self._inner, self.path = inner, ""

    async def send(self, request: Request) -> Response:
        if self.path and self.path in request.path:
            raise Unreachable("no answer")
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize("path", ["/volumeattachments/va", "/persistentvolumes/pv"])
def test_what_cannot_be_verified_keeps_no_other_volume_from_it_and_waits_for_the_next_time(
    play: Play, path: str, monkeypatch: pytest.MonkeyPatch
):
    """Found by the simulation: one write that had no answer, and the storage was asked about everything
    after half a second, and again."""
    questions: list[str] = []
    whole = _Attacher.volumes_are_attached

    async def count(self: Any, specs: Any, node: str) -> Any:
        questions.append(node)
        return await whole(self, specs, node)

    monkeypatch.setattr(_Attacher, "volumes_are_attached", count)

    async def story(stage: ControllerStage):
        await wanted(stage)
        await wanted(stage, record="other", node="m", disk="e", pv="other")
        fails = Fails(admin(stage.server))
        controller = stage.make(AttacherController, Client(fails), plugins=stage.plugins())
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(5)
        assert stage.array.attached == {"d": "n", "e": "m"}
        fails.path = path
        stage.array.attached.clear()
        await asyncio.sleep(110)
        assert stage.array.attached == {"e": "m"}
        assert questions.count("m") == 1
        fails.path = ""
        await asyncio.sleep(60)
        assert stage.array.attached == {"d": "n", "e": "m"}
        assert questions.count("m") == 2
        running.cancel()

    play(story)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_storage_that_cannot_be_asked_means_still_attached(
    play: Play, bulk: bool, monkeypatch: pytest.MonkeyPatch
):
    async def fail(*given: Any) -> Any:
        raise TimeoutError("no answer")

    class Attacher(_Attacher, BulkVolumeVerifier):
        bulk_verify_volumes = volumes_are_attached = fail

    monkeypatch.setattr(ArrayPlugin, "new_attacher", lambda self: Attacher(self))  # noqa: PLW0108
    monkeypatch.setattr(ArrayPlugin, "supports_bulk_volume_verification", lambda self: bulk)

    async def story(stage: ControllerStage):
        controller, _ = await attached(stage)
        stage.array.attached.clear()
        assert (await verified(stage, controller)).status.attached

    play(story)


def test_an_attachment_that_is_being_detached_is_not_asked_about(play: Play):
    async def story(stage: ControllerStage):
        controller, record = await attached(stage)
        marked = await stage.api.revise(record, {"metadata": {"annotations": {"mooring.dev/detaching": "x"}}})
        controller.cache(VolumeAttachment).accept(marked)
        stage.array.attached.clear()
        assert (await verified(stage, controller)).status.attached

    play(story)


def test_a_record_that_was_written_since_the_storage_was_asked_is_left_alone(play: Play):
    async def story(stage: ControllerStage):
        controller, record = await attached(stage)
        await stage.api.revise(record, {"metadata": {"annotations": {"somebody": "wrote"}}})
        stage.array.attached.clear()
        assert (await verified(stage, controller)).status.attached

    play(story)


def test_an_error_that_is_stored_late_on_one_that_is_attached_is_taken_off(play: Play):
    """10500194 of `fencing-by-storage.yaml`: nothing else wakes it, for hours."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        running = asyncio.create_task(stage.make(AttacherController, plugins=stage.plugins()).run())
        await asyncio.sleep(5)
        error = {"time": "2030-01-01T00:00:00Z", "message": "the array is out of order"}
        for _ in range(2):
            await stage.api.patch(
                VolumeAttachment, "va", {"status": {"attachError": error}}, subresource="status"
            )
            await asyncio.sleep(5)
            found = await stage.api.get(VolumeAttachment, "va")
            assert found.status.attached and found.status.attach_error is None
        running.cancel()

    play(story)
