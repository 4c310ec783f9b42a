"""What is told of records that are not as the storage says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from disk_record import reconciled, wanted
from structlog.testing import capture_logs

from mooring.controllers.attacher import requests
from mooring.controllers.attacher.controller import VERIFY, AttacherController
from mooring.kube.client import Client
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.names import ATTACH_REQUESTED_AT


async def verified(stage: ControllerStage, attacher: Any) -> list[tuple[str, str]]:
    """What is logged of the records."""
    with capture_logs() as logged:
        await attacher.reconcile(VERIFY)
    return [(each["event"], each["record"]) for each in logged]


async def live(stage: ControllerStage) -> VolumeAttachment:
    return await stage.api.get(VolumeAttachment, "va")


async def attached(stage: ControllerStage) -> Any:
    await wanted(stage)
    attacher = stage.make(AttacherController, plugins=stage.plugins())
    await reconciled(stage, attacher)
    return attacher


@pytest.mark.parametrize(
    ("elsewhere", "told"), [("", "NotAttachedAnyMore"), ("/dev/elsewhere", "AttachedElsewhere")]
)
def test_an_operator_is_told_what_of_a_record_was_not_so(play: Play, elsewhere: str, told: str):
    async def story(stage: ControllerStage):
        attacher = await attached(stage)
        stage.array.vanish("d", "n")
        if elsewhere:
            stage.array.appear("d", "n", elsewhere)
        assert await verified(stage, attacher) == [(told, "va")]
        assert await verified(stage, attacher) == []

    play(story)


def test_an_attach_that_was_answered_is_not_waited_for_when_its_volume_has_vanished(play: Play):
    """A detach would wait for as long as a request may take effect: to some storages that is hours."""

    async def story(stage: ControllerStage):
        attacher = await attached(stage)
        stage.array.vanish("d", "n")
        assert await verified(stage, attacher) == [("NotAttachedAnyMore", "va")]
        corrected = await live(stage)
        sent = requests.times(corrected, ATTACH_REQUESTED_AT)
        assert not corrected.status.attached
        assert attacher._ages.since(corrected, sent) == [-math.inf]
        await reconciled(stage, attacher)
        again = await live(stage)
        assert again.status.attached
        assert len(requests.times(again, ATTACH_REQUESTED_AT)) == 1

    play(story)


def test_nothing_is_told_of_a_record_that_was_written_since(play: Play):
    """What the storage has said was about an earlier state."""

    async def story(stage: ControllerStage):
        attacher = await attached(stage)
        stage.array.vanish("d", "n")
        await stage.api.patch(VolumeAttachment, "va", {"metadata": {"annotations": {"of": "another"}}})
        assert await verified(stage, attacher) == []

    play(story)


def test_an_operator_is_told_what_could_not_be_corrected(play: Play):
    async def story(stage: ControllerStage):
        attacher = await attached(stage)
        stage.array.vanish("d", "n")
        stage.wire.lose(request("PATCH", "volumeattachments/va/status"))
        assert ("VolumeNotCorrected", "va") in await verified(stage, attacher)

    play(story)


def test_an_operator_is_told_when_deletions_under_way_could_not_be_read_at_the_start(play: Play):
    async def story(stage: ControllerStage):
        client = Client(stage.wire, leads=lambda: True)
        attacher = stage.make(AttacherController, client, plugins=stage.plugins())
        stage.wire.lose(request("GET", "volumeattachments"))
        with capture_logs() as logged:
            await attacher.started()
        assert [each["event"] for each in logged] == ["DeletionsNotKnown"]

    play(story)


def test_an_error_that_was_not_foreseen_is_not_hidden(play: Play, monkeypatch: pytest.MonkeyPatch):
    """The worker logs it, and tries again after a while."""

    async def story(stage: ControllerStage):
        attacher = await attached(stage)

        async def recorded() -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(attacher, "_recorded", recorded)
        with pytest.raises(RuntimeError, match="a bug"):
            await attacher.reconcile(VERIFY)

    play(story)
