"""What the API server refuses the attacher stands on the VolumeAttachment, as what a storage refuses does."""

from __future__ import annotations

import pytest
from controller_stage import ControllerStage, Play
from disk_record import reconciled, wanted
from refusals import WHY, refuse

from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.errors import Forbidden
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.parts.faulty_transport import request

FINALIZER = request("PATCH", "volumeattachments/va", "finalizers")


def test_a_record_says_that_its_finalizer_may_not_be_stored(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        refuse(stage, FINALIZER)
        with pytest.raises(Forbidden, match=WHY):
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        record = await stage.api.get(VolumeAttachment, "va")
        assert record.status.attach_error is not None
        assert WHY in record.status.attach_error.message
        assert stage.array.history == []

    play(story)


def test_a_record_says_that_its_finalizer_may_not_be_taken_off(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        await reconciled(stage, attacher)
        await stage.api.delete(VolumeAttachment, "va")
        refuse(stage, FINALIZER)
        with pytest.raises(Forbidden, match=WHY):
            await reconciled(stage, attacher)
        record = await stage.api.get(VolumeAttachment, "va")
        assert record.status.detach_error is not None
        assert WHY in record.status.detach_error.message

    play(story)


def test_what_is_refused_is_raised_also_if_it_may_not_be_stored_either(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        refuse(stage, FINALIZER)
        refuse(stage, request("PATCH", "volumeattachments/va/status"), why="nor that")
        with pytest.raises(Forbidden, match=WHY):
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))

    play(story)
