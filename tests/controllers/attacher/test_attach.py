"""How an attach is asked for: what is noted and read before it, and how many are asked for at once."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from controller_stage import ControllerStage, DriverStage, Play
from disk_record import reconciled, slow_requests, unanswered, wanted, wanted_again
from played_driver import NAME, plugin
from structlog.testing import capture_logs

from mooring.controllers.attacher.controller import AttacherController, AttacherOptions
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.parts.array_plugin import DISK, ArrayPlugin
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.errors import VolumeInUse
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import ATTACH_EPOCH, CSI_PLUGIN, INLINE_VOLUME, PLUGIN
from mooring.volumes.plugin_manager import PluginManager

REQUESTED = "mooring.dev/attach-requested-at"
VALIDITY_S = 100.0
RECORD = "/apis/storage.k8s.io/v1/volumeattachments/va"


def times(record: VolumeAttachment) -> list[str]:
    return record.metadata.annotations[REQUESTED].split(",")


@pytest.mark.parametrize(("after_s", "kept"), [(1.0, 1), (VALIDITY_S + 1, 0)])
def test_each_try_is_noted_anew_before_it_is_sent_beside_those_that_may_still_take_effect(
    play: Play, monkeypatch: pytest.MonkeyPatch, after_s: float, kept: int
):
    """Docs/protocol.md C15: it may be the one of which no answer comes."""
    slow_requests(monkeypatch, VALIDITY_S)

    async def story(stage: ControllerStage):
        await wanted(stage)
        attacher = stage.make(AttacherController, plugins=stage.plugins())
        unanswered(stage, "attach")
        with pytest.raises(TimeoutError):
            await reconciled(stage, attacher)
        first = times(await stage.api.get(VolumeAttachment, "va"))
        await asyncio.sleep(after_s)
        whole, noted = stage.array.attach, list[str]()

        async def attach(disk: str, node: str) -> None:
            noted.extend(times(await stage.api.get(VolumeAttachment, "va")))
            await whole(disk, node)

        stage.array.attach = attach
        await reconciled(stage, attacher)
        assert noted[:-1] == first[:kept]
        assert noted[-1] not in first

    play(story)


def test_a_volume_that_a_pod_defines_itself_has_no_lock_of_whatever_epoch_its_record_is(play: Play):
    async def story(stage: ControllerStage):
        stage.array.disks.add("d")
        inline = {"name": "data", "flexVolume": {"driver": DISK, "options": {"disk": "d"}}}
        notes = {PLUGIN: DISK, INLINE_VOLUME: json.dumps(inline), ATTACH_EPOCH: "5"}
        source = {"persistentVolumeName": "inline-1"}
        spec = {"attacher": "plugins.mooring.dev", "nodeName": "n", "source": source}
        await stage.api.create(
            VolumeAttachment, {"metadata": {"name": "va", "annotations": notes}, "spec": spec}
        )
        done = await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        assert done.status.attached

    play(story)


def test_finalizers_of_others_stay_when_an_attach_begins(play: Play):
    async def story(stage: ControllerStage):
        record = await wanted(stage)
        await stage.api.revise(record, {"metadata": {"finalizers": ["example.com/hold"]}})
        done = await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        assert done.metadata.finalizers == ("example.com/hold", "mooring.dev/attacher")

    play(story)


def test_nothing_is_asked_of_the_storage_about_what_was_written_since(play: Play):
    """Another controller may have marked or deleted it."""

    async def story(stage: ControllerStage):
        stale = await wanted(stage)
        await stage.api.revise(stale, {"metadata": {"annotations": {"mooring.dev/detaching": "x"}}})
        controller = stage.make(AttacherController, plugins=stage.plugins())
        controller.cache(VolumeAttachment).accept(stale)
        with pytest.raises(Conflict):
            await controller.reconcile("va")
        assert stage.array.history == []

    play(story)


def test_an_attach_takes_two_writes_and_one_read_of_the_definition(play: Play):
    async def story(stage: ControllerStage):
        controller = stage.make(AttacherController, plugins=stage.plugins())
        controller.cache(VolumeAttachment).accept(await wanted(stage))
        begun = len(stage.wire.sent)
        await controller.reconcile("va")
        assert [sent.partition("?")[0] for sent in stage.wire.sent[begun:]] == [
            f"PATCH {RECORD}",
            "GET /api/v1/persistentvolumes/pv",
            f"PATCH {RECORD}/status",
        ]

    play(story)


def test_what_it_writes_itself_does_not_wake_it(play: Play):
    async def story(stage: ControllerStage):
        controller = stage.make(AttacherController, plugins=stage.plugins())
        controller.cache(VolumeAttachment).accept(await wanted(stage))
        controller.queue.done(await controller.queue.get())
        await controller.reconcile("va")
        assert "va" not in controller.queue

    play(story)


def test_what_was_refused_is_asked_for_again_before_the_watch_has_shown_that(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        stage.array.attached["d"] = "elsewhere"
        controller = stage.make(AttacherController, plugins=stage.plugins())
        with pytest.raises(VolumeInUse):
            await reconciled(stage, controller)
        with pytest.raises(VolumeInUse):
            await controller.reconcile("va")

    play(story)


def test_a_refusal_that_cannot_be_noted_is_an_error_of_the_api_and_not_told_as_the_storages(play: Play):
    """The request counts as outstanding still."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        stage.array.attached["d"] = "elsewhere"
        stage.wire.lose(request("PATCH", "volumeattachments/va", f'"{REQUESTED}":null'))
        with pytest.raises(Unreachable):
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        record = await stage.api.get(VolumeAttachment, "va")
        assert len(times(record)) == 1
        assert record.status.attach_error is None

    play(story)


def test_an_error_that_it_stores_itself_does_not_end_its_backoff(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        tried: list[float] = []

        async def attach(disk: str, node: str) -> None:
            tried.append(asyncio.get_running_loop().time())
            raise TimeoutError("no answer")

        stage.array.attach = attach
        running = asyncio.create_task(stage.make(AttacherController, plugins=stage.plugins()).run())
        await asyncio.sleep(10)
        running.cancel()
        waited = [round(later - before, 1) for before, later in pairwise(tried)]
        assert waited == [0.5, 1.0, 2.0, 4.0]

    play(story)


def test_an_error_that_cannot_be_stored_is_one_of_the_api(play: Play):
    async def story(stage: ControllerStage):
        await wanted(stage)
        stage.array.disks.clear()
        stage.wire.lose(request("PATCH", "volumeattachments/va/status"))
        with pytest.raises(Unreachable):
            await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))

    play(story)


async def let_go(stage: ControllerStage) -> None:
    """By another hand."""
    await stage.api.patch(VolumeAttachment, "va", {"metadata": {"finalizers": None}})
    await stage.api.delete(VolumeAttachment, "va")


def test_that_it_was_attached_is_not_said_of_another_record(play: Play):
    """The record was let go while the storage attached, and another one made in its place."""

    async def story(stage: ControllerStage):
        await wanted(stage)
        whole = stage.array.attach

        async def attach(disk: str, node: str) -> None:
            await whole(disk, node)
            await let_go(stage)
            await wanted_again(stage)

        stage.array.attach = attach
        left = await reconciled(stage, stage.make(AttacherController, plugins=stage.plugins()))
        assert left is not None and not left.status.attached

    play(story)


def test_of_a_record_that_goes_while_it_is_written_nothing_more_is_said(play: Play):
    async def story(stage: ControllerStage):
        record, whole = await wanted(stage), stage.array.attach
        controller = stage.make(AttacherController, Client(stage.wire), plugins=stage.plugins())
        controller.cache(VolumeAttachment).accept(record)

        async def attach(disk: str, node: str) -> None:
            await whole(disk, node)
            await stage.api.patch(VolumeAttachment, "va", {"metadata": {"annotations": {"of": "another"}}})

        stage.array.attach = attach
        read = stage.wire.hold(request("GET", "volumeattachments/va"))
        working = asyncio.create_task(controller.reconcile("va"))
        await read.arrived.wait()
        await let_go(stage)
        read.release()
        await working

    play(story)


@pytest.mark.parametrize("state", ["settled", "another attacher's"])
def test_where_nothing_is_to_be_done_nothing_is_logged(play: Play, state: str):
    """After a start it is looked at everything."""

    async def story(stage: ControllerStage):
        if state == "settled":
            await wanted(stage)
            await stage.api.patch(
                VolumeAttachment, "va", {"status": {"attached": True}}, subresource="status"
            )
        else:
            spec = {"attacher": "x.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
            await stage.api.create(VolumeAttachment, {"metadata": {"name": "va"}, "spec": spec})
        controller = stage.make(AttacherController, plugins=stage.plugins())
        with capture_logs() as logged:
            await reconciled(stage, controller)
        assert logged == []

    play(story)


@pytest.mark.parametrize(("drivers", "at_once"), [(1, 16), (2, 12)])
def test_unless_it_is_set_one_storage_has_sixteen_requests_at_once_and_leaves_a_quarter_to_others(
    play: Play, drivers: int, at_once: int
):
    async def story(stage: DriverStage):
        stage.array.attach_s = 5.0
        plugins = [ArrayPlugin(stage.array), plugin(stage.storage)][:drivers]
        host = ControllerVolumeHost(stage.now, {CSI_PLUGIN: {NAME: "here"}}, stage.api)
        options = AttacherOptions(verify_period_s=0)
        attacher = stage.make(AttacherController, plugins=PluginManager(plugins, host), options=options)
        for number in range(20):
            await wanted(stage, record=f"va-{number}", disk=f"d-{number}", pv=f"pv-{number}")
        running = asyncio.create_task(attacher.run())
        await asyncio.sleep(30)
        running.cancel()
        assert stage.array.busiest == at_once
        assert len(stage.array.attached) == 20

    play(story, stage=DriverStage)
