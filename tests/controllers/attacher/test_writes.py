"""Writes to a VolumeAttachment that another has written meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from disk_record import before_the_answer, reconciled, wanted, wanted_again

from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound, Unreachable
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.parts.faulty_transport import request

ERROR = {"attachError": {"time": "2030-01-01T00:00:00Z", "message": "no volume d"}}


async def write(stage: ControllerStage, **status: Any) -> VolumeAttachment:
    return await stage.api.patch(VolumeAttachment, "va", {"status": status}, subresource="status")


def test_an_error_is_not_taken_off_what_is_attached_no_more(play: Play):
    """It may tell why."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        controller = stage.make(AttacherController, plugins=stage.plugins())
        controller.cache(VolumeAttachment).accept(await write(stage, attached=True, **ERROR))
        await write(stage, attached=False)
        with pytest.raises(Conflict):
            await controller.reconcile("va")
        assert (await stage.api.get(VolumeAttachment, "va")).status.attach_error is not None

    play(story)


def test_what_has_another_in_its_place_before_it_could_be_let_go_is_not_remembered(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        controller = stage.make(AttacherController, plugins=stage.plugins())
        await reconciled(stage, controller)
        await stage.api.delete(VolumeAttachment, "va")

        async def another_is_made() -> None:
            await stage.api.patch(VolumeAttachment, "va", {"metadata": {"finalizers": None}})
            controller.cache(VolumeAttachment).accept(await wanted_again(stage))

        before_the_answer(stage, "detach", another_is_made)
        with pytest.raises((Conflict, NotFound)):
            await reconciled(stage, controller)
        assert controller._remembered._not_fresh == set()

    play(story)


@pytest.mark.parametrize("lease", [False, True], ids=["without a lease", "under a lease"])
def test_a_record_is_not_let_go_that_was_written_while_the_storage_detached(play: Play, lease: bool):
    """Another attacher may have noted a request, which must be waited for."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        client = Client(stage.wire, leads=(lambda: True) if lease else None)
        controller = stage.make(AttacherController, client, plugins=stage.plugins())
        await controller.started()
        await reconciled(stage, controller)
        await stage.api.delete(VolumeAttachment, "va")
        whole = stage.array.detach

        async def detach(disk: str, node: str) -> None:
            await whole(disk, node)
            noted = {"mooring.dev/detach-requested-at": "2030-01-01T00:00:09.000000Z"}
            await stage.api.patch(VolumeAttachment, "va", {"metadata": {"annotations": noted}})

        stage.array.detach = detach
        with pytest.raises(Conflict):
            await reconciled(stage, controller)
        kept = await stage.api.get(VolumeAttachment, "va")
        assert kept.metadata.finalizers == ("mooring.dev/attacher",)

    play(story)


def test_an_answer_that_cannot_be_noted_on_what_was_deleted_meanwhile_is_an_error(play: Play):
    """Else its detach would wait for a request that was answered."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        whole = stage.array.attach

        async def attach(disk: str, node: str) -> None:
            await whole(disk, node)
            await stage.api.delete(VolumeAttachment, "va")

        stage.array.attach = attach
        stage.wire.lose(request("PATCH", "volumeattachments", '"mooring.dev/attach-requested-at":null'))
        with pytest.raises(Unreachable):
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))

    play(story)
