"""What the attacher writes before and after it asks the storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from disk_record import reconciled, wanted

from mooring.controllers.attacher.controller import VERIFY, AttacherController
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.simulation.parts.array_plugin import ArrayPlugin, _Attacher
from mooring.volumes.errors import DeviceStillInUse, VolumeNotFound
from mooring.volumes.interfaces import BulkVolumeVerifier

Desk = Callable[[Any], Any]
FINALIZER = "mooring.dev/attacher"


def test_finalizer_and_time_of_the_request_are_stored_before_the_storage_is_asked(desk: Desk):
    async def scene(desk: Any):
        await wanted(desk)
        whole, seen = desk.array.attach, []

        async def attach(disk: str, node: str) -> None:
            record = await desk.api.get(VolumeAttachment, "va")
            seen.append((FINALIZER in record.metadata.finalizers, *record.metadata.annotations))
            await whole(disk, node)

        desk.array.attach = attach
        done = await reconciled(desk, desk.make(AttacherController, plugins=desk.plugins()))
        assert done.status.attached
        assert done.status.attachment_metadata == {"devicePath": "/dev/d"}
        ((held, *annotations),) = seen
        assert held
        assert "mooring.dev/attach-requested-at" in annotations

    desk(scene)


def test_the_record_goes_only_after_the_storage_says_that_it_is_detached(desk: Desk):
    async def scene(desk: Any):
        await wanted(desk)
        controller = desk.make(AttacherController, plugins=desk.plugins())
        await reconciled(desk, controller)
        await desk.api.delete(VolumeAttachment, "va")
        desk.array.mounted.add(("d", "n"))
        with pytest.raises(DeviceStillInUse):
            await reconciled(desk, controller)
        held = await desk.api.get(VolumeAttachment, "va")
        assert FINALIZER in held.metadata.finalizers
        assert "still uses it" in held.status.detach_error.message
        desk.array.mounted.clear()
        assert await reconciled(desk, controller) is None
        assert desk.array.attached == {}

    desk(scene)


def test_what_the_storage_says_against_an_attach_is_in_the_record_until_it_succeeds(desk: Desk):
    async def scene(desk: Any):
        await wanted(desk)
        desk.array.disks.clear()
        controller = desk.make(AttacherController, plugins=desk.plugins())
        with pytest.raises(VolumeNotFound):
            await reconciled(desk, controller)
        failed = await desk.api.get(VolumeAttachment, "va")
        assert "no volume d" in failed.status.attach_error.message
        assert not failed.status.attached
        desk.array.disks.add("d")
        done = await reconciled(desk, controller)
        assert (done.status.attached, done.status.attach_error) == (True, None)

    desk(scene)


def test_a_record_whose_attach_was_refused_goes_although_its_volume_is_not_defined_any_more(desk: Desk):
    async def scene(desk: Any):
        await wanted(desk)
        desk.array.disks.clear()
        controller = desk.make(AttacherController, plugins=desk.plugins())
        with pytest.raises(VolumeNotFound):
            await reconciled(desk, controller)
        await desk.api.delete(PersistentVolume, "pv")
        await desk.api.delete(VolumeAttachment, "va")
        assert await reconciled(desk, controller) is None

    desk(scene)


def test_a_record_that_was_never_acted_upon_is_left_to_go(desk: Desk):
    async def scene(desk: Any):
        record = await wanted(desk)
        controller = desk.make(AttacherController, plugins=desk.plugins())
        await desk.api.delete(VolumeAttachment, "va", uid=record.uid)
        controller.cache(VolumeAttachment).accept(record)
        sent = len(desk.wire.sent)
        desk.array.disks.clear()
        with pytest.raises(Exception, match="not found"):
            # The cache is stale: the intent cannot be stored, so the storage is not asked.
            await controller.reconcile("va")
        assert len(desk.wire.sent) == sent + 1
        assert desk.array.history == []

    desk(scene)


async def attached(desk: Any) -> tuple[Any, Any]:
    """A controller, and its record of an attached volume."""
    await wanted(desk)
    controller = desk.make(AttacherController, plugins=desk.plugins())
    return controller, await reconciled(desk, controller)


async def verified(desk: Any, controller: Any) -> VolumeAttachment:
    await controller.reconcile(VERIFY)
    return await desk.api.get(VolumeAttachment, "va")


def test_what_the_storage_has_lost_is_attached_again(desk: Desk):
    async def scene(desk: Any):
        controller, _ = await attached(desk)
        assert (await verified(desk, controller)).status.attached
        desk.array.attached.clear()
        assert not (await verified(desk, controller)).status.attached
        assert (await reconciled(desk, controller)).status.attached
        assert desk.array.attached == {"d": "n"}

    desk(scene)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_storage_that_cannot_be_asked_means_still_attached(
    desk: Desk, bulk: bool, monkeypatch: pytest.MonkeyPatch
):
    async def fail(*given: Any) -> Any:
        raise TimeoutError("no answer")

    class Attacher(_Attacher, BulkVolumeVerifier):
        bulk_verify_volumes = volumes_are_attached = fail

    monkeypatch.setattr(ArrayPlugin, "new_attacher", lambda self: Attacher(self))  # noqa: PLW0108
    monkeypatch.setattr(ArrayPlugin, "supports_bulk_volume_verification", lambda self: bulk)

    async def scene(desk: Any):
        controller, _ = await attached(desk)
        desk.array.attached.clear()
        assert (await verified(desk, controller)).status.attached

    desk(scene)


def test_an_attachment_that_is_being_detached_is_not_asked_about(desk: Desk):
    async def scene(desk: Any):
        controller, record = await attached(desk)
        marked = await desk.api.revise(record, {"metadata": {"annotations": {"mooring.dev/detaching": "x"}}})
        controller.cache(VolumeAttachment).accept(marked)
        desk.array.attached.clear()
        assert (await verified(desk, controller)).status.attached

    desk(scene)


def test_a_record_that_was_written_since_the_storage_was_asked_is_left_alone(desk: Desk):
    async def scene(desk: Any):
        controller, record = await attached(desk)
        await desk.api.revise(record, {"metadata": {"annotations": {"somebody": "wrote"}}})
        desk.array.attached.clear()
        assert (await verified(desk, controller)).status.attached

    desk(scene)
