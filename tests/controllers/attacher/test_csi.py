"""VolumeAttachments of a CSI driver: what is written before and after each call, and what
failed calls mean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from controller_stage import DriverStage, Play
from played_driver import ALL, NAME, C

from mooring.apiserver import Server
from mooring.controllers.attacher.controller import VERIFY, AttacherController
from mooring.controllers.attacher.slots import Slots
from mooring.csi.driver.services import ControllerCapability
from mooring.csi.errors import Code
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.keys import VolumeKey
from mooring.kube.objects import CSINode, PersistentVolume, VolumeAttachment
from mooring.volumes.errors import NotAsked, OutcomeUnknown, StorageRefused, VolumeError
from mooring.volumes.names import CSI_PLUGIN, volume_attachment_name

RECORD = volume_attachment_name(CSI_PLUGIN, f"{NAME}^v", "n")
FINALIZER = "external-attacher/played-example-com"


class CsiAttacherStage(DriverStage):
    """A PersistentVolume of handle v, and a VolumeAttachment that wants it on n, which the
    driver calls i-1."""

    def __init__(
        self,
        server: Server,
        now: Callable[[], datetime],
        capabilities: Collection[ControllerCapability] = ALL,
    ) -> None:
        super().__init__(server, now)
        self.drivers = self.driver(capabilities=capabilities)
        self.start()

    def start(self) -> None:
        """An attacher that remembers nothing."""
        self.controller = self.make(AttacherController, plugins=self.drivers)

    async def set_up(self, *, registered: bool = True, **source: Any) -> None:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        of_driver = {"driver": NAME, "volumeHandle": "v", **source}
        await self.api.create(
            PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, "csi": of_driver}}
        )
        if registered:
            await self.register("i-1")
        await self.want()

    async def make_anew(self) -> None:
        """The PersistentVolume, for another disk."""
        volume = await self.api.get(PersistentVolume, "pv")
        await self.api.revise(volume, {"metadata": {"finalizers": None}}, any_version=True)
        await self.api.delete(PersistentVolume, "pv")
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        another = {"driver": NAME, "volumeHandle": "another"}
        await self.api.create(
            PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, "csi": another}}
        )

    async def register(self, node_id: str) -> None:
        spec = {"drivers": [{"name": NAME, "nodeID": node_id, "topologyKeys": None}]}
        await self.api.create(CSINode, {"metadata": {"name": "n"}, "spec": spec})

    async def want(self) -> None:
        spec = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        await self.api.create(VolumeAttachment, {"metadata": {"name": RECORD}, "spec": spec})

    async def reconciled(self) -> VolumeAttachment | None:
        self.controller.cache(VolumeAttachment).accept(await self.api.find(VolumeAttachment, RECORD))
        await self.controller.reconcile(RECORD)
        return await self.api.find(VolumeAttachment, RECORD)

    async def record(self) -> VolumeAttachment:
        return await self.api.get(VolumeAttachment, RECORD)


@pytest.fixture
def play(play: Play) -> Play:
    return partial(play, stage=CsiAttacherStage)


def test_what_a_detach_will_need_is_stored_before_the_driver_is_asked(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up(readOnly=True, volumeAttributes={"tier": "gold"})
        record = await stage.reconciled()
        assert record is not None
        assert record.status.attached
        assert record.status.attachment_metadata == {"lun": "7"}
        assert FINALIZER in record.metadata.finalizers
        assert record.metadata.annotations["csi.alpha.kubernetes.io/node-id"] == "i-1"
        assert record.metadata.annotations["mooring.dev/volume-name"] == f"{NAME}^v"
        ((_, asked),) = stage.storage.calls
        assert (asked.volume_id, asked.node_id, dict(asked.volume_context)) == ("v", "i-1", {"tier": "gold"})
        assert not asked.readonly, "the driver lacks PUBLISH_READONLY: the mount is read-only"

    play(story)


def test_what_is_to_be_reclaimed_is_attached_nowhere_though_the_cache_shows_its_claim(play: Play):
    """Docs/protocol.md, "Reclaim": else it may be attached while its disk is deleted."""

    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.api.patch(PersistentVolume, "pv", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
        await stage.fill(stage.controller, PersistentVolume)
        released = {"status": {"phase": "Released"}}
        await stage.api.patch(PersistentVolume, "pv", released, subresource="status")
        with pytest.raises(NotAsked, match="claim of PersistentVolume pv is gone"):
            await stage.reconciled()
        assert stage.storage.calls == []

    play(story)


def test_another_disk_than_the_attachment_is_about_is_not_attached(play: Play):
    """Nor would it be told from that one's own attachment, and be detached from under its pod."""

    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.make_anew()
        with pytest.raises(VolumeError, match="made anew for another disk"):
            await stage.reconciled()
        assert stage.storage.methods() == []
        record = await stage.record()
        assert record.status.attach_error is not None
        assert not record.metadata.annotations

    play(story)


def test_what_is_attached_stays_so_though_its_volume_was_made_anew_for_another_disk(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        await stage.make_anew()
        stage.storage.published["another"].add("i-2")
        stage.controller.cache(VolumeAttachment).accept(await stage.record())
        await stage.controller.reconcile(VERIFY)
        assert (await stage.record()).status.attached
        await stage.api.delete(VolumeAttachment, RECORD)
        assert await stage.reconciled() is None
        assert stage.storage.published == {"v": set(), "another": {"i-2"}}

    play(story)


def test_what_another_controllers_finalizer_has_held_until_just_now_goes_at_once(play: Play):
    """It is let go while the driver detaches."""

    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        attached = await stage.reconciled()
        assert attached is not None
        held = {"metadata": {"finalizers": [*attached.metadata.finalizers, "example.com/hold"]}}
        await stage.api.patch(VolumeAttachment, RECORD, held)
        await stage.api.delete(VolumeAttachment, RECORD)
        stage.controller.cache(VolumeAttachment).accept(await stage.record())
        let_go = {"metadata": {"finalizers": list(attached.metadata.finalizers)}}
        carry_out = stage.storage.play

        async def meanwhile(name: str, request: Any, act: Callable[[], Any]) -> Any:
            await stage.api.patch(VolumeAttachment, RECORD, let_go)
            return await carry_out(name, request, act)

        stage.storage.play = meanwhile
        await stage.controller.reconcile(RECORD)
        assert await stage.api.find(VolumeAttachment, RECORD) is None
        assert stage.storage.methods() == ["ControllerPublishVolume", "ControllerUnpublishVolume"]

    play(story)


def test_a_detach_is_not_asked_for_again_while_the_cache_still_shows_what_was_let_go(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        await stage.api.delete(VolumeAttachment, RECORD)
        assert await stage.reconciled() is None
        await stage.controller.reconcile(RECORD)
        assert stage.storage.methods() == ["ControllerPublishVolume", "ControllerUnpublishVolume"]
        assert not stage.controller.queue.is_delayed(RECORD), "nothing is waited for"

    play(story)


def test_one_attach_is_one_call(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        await stage.reconciled()
        assert stage.storage.methods() == ["ControllerPublishVolume"]

    play(story)


def test_the_node_id_that_is_noted_is_the_one_that_is_sent(play: Play):
    """One read of the CSINode for an attach; and what a detach will use is what was attached."""

    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        asked = [sent for sent in stage.wire.sent if sent.startswith("GET") and "csinodes" in sent]
        assert len(asked) == 1

    play(story)


def test_a_detach_needs_neither_volume_nor_node_nor_csinode(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        await stage.api.delete(CSINode, "n")
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await stage.api.delete(VolumeAttachment, RECORD)
        assert await stage.reconciled() is None
        assert stage.storage.published["v"] == set()

    play(story)


def test_what_upstreams_attacher_has_attached_is_detached(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up(registered=False)
        stage.storage.published["v"] = {"i-1"}
        note = {"csi.alpha.kubernetes.io/node-id": "i-1"}
        patch = {"metadata": {"finalizers": [FINALIZER], "annotations": note}}
        await stage.api.patch(VolumeAttachment, RECORD, patch)
        await stage.api.patch(VolumeAttachment, RECORD, {"status": {"attached": True}}, subresource="status")
        await stage.api.delete(VolumeAttachment, RECORD)
        assert await stage.reconciled() is None
        assert stage.storage.published["v"] == set()

    play(story)


def test_upstreams_finalizer_of_a_volume_goes_when_it_is_attached_nowhere(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": [FINALIZER]}})
        await stage.api.delete(PersistentVolume, "pv")
        await stage.controller.reconcile(VolumeKey("pv"))
        assert await stage.api.find(PersistentVolume, "pv") is not None, "a VolumeAttachment names it"
        await stage.api.delete(VolumeAttachment, RECORD)
        await stage.controller.reconcile(VolumeKey("pv"))
        assert await stage.api.find(PersistentVolume, "pv") is None

    play(story)


def test_a_volume_that_is_gone_or_not_deleted_or_without_that_finalizer_is_left_as_it_is(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.api.delete(VolumeAttachment, RECORD)
        await stage.controller.reconcile(VolumeKey("gone"))
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": [FINALIZER]}})
        before = await stage.api.get(PersistentVolume, "pv")
        await stage.controller.reconcile(VolumeKey("pv"))
        assert await stage.api.get(PersistentVolume, "pv") == before, "it is not being deleted"
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": ["example.com/other"]}})
        await stage.api.delete(PersistentVolume, "pv")
        before = await stage.api.get(PersistentVolume, "pv")
        await stage.controller.reconcile(VolumeKey("pv"))
        assert await stage.api.get(PersistentVolume, "pv") == before

    play(story)


def test_a_node_whose_driver_has_not_registered_is_said_and_nothing_is_asked(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up(registered=False)
        with pytest.raises(NotAsked, match="has not registered"):
            await stage.reconciled()
        record = await stage.record()
        assert record.status.attach_error is not None
        assert "CSINode n does not list driver" in record.status.attach_error.message
        assert stage.storage.calls == []
        await stage.register("i-9")
        await stage.reconciled()
        assert stage.storage.published["v"] == {"i-9"}

    play(story)


def test_a_deletion_that_comes_with_the_answer_to_a_noted_error_is_acted_upon(play: Play):
    """The watch shows nothing of it: the cache is newer already."""

    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        stage.storage.failing["ControllerPublishVolume"].errors = [Code.UNAVAILABLE]
        stage.storage.failing["ControllerPublishVolume"].delay_s = 1.0
        working = asyncio.create_task(stage.reconciled())
        await asyncio.sleep(0.5)
        await stage.api.delete(VolumeAttachment, RECORD)
        stage.controller.queue.done(await stage.controller.queue.get())
        assert RECORD not in stage.controller.queue
        with pytest.raises(OutcomeUnknown):
            await working
        assert RECORD in stage.controller.queue

    play(story)


def test_a_refusal_is_no_request_that_is_outstanding(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        stage.storage.published["v"] = {"i-2"}
        with pytest.raises(StorageRefused, match="published to i-2"):
            await stage.reconciled()
        assert "mooring.dev/attach-requested-at" not in (await stage.record()).metadata.annotations
        await stage.api.delete(VolumeAttachment, RECORD)
        assert await stage.reconciled() is None, "nothing has to be waited for"

    play(story)


def test_after_an_unanswered_attach_the_record_stays_until_nothing_can_happen_any_more(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        stage.storage.failing["ControllerPublishVolume"].errors = [Code.DEADLINE_EXCEEDED]
        stage.storage.failing["ControllerPublishVolume"].after = True
        with pytest.raises(OutcomeUnknown):
            await stage.reconciled()
        await stage.api.delete(VolumeAttachment, RECORD)
        held = await stage.reconciled()
        assert stage.storage.published["v"] == set(), "the driver was asked to detach it at once"
        assert held is not None, "and the attach may still be carried out"

    play(story)


def test_a_driver_that_attaches_nothing_is_asked_nothing(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up(registered=False)
        record = await stage.reconciled()
        assert record is not None
        assert record.status.attached
        assert stage.storage.calls == []
        await stage.api.delete(VolumeAttachment, RECORD)
        assert await stage.reconciled() is None

    play(story, capabilities=[C.CREATE_DELETE_VOLUME])


@pytest.mark.parametrize(("elsewhere", "attached"), [({"i-1"}, True), (set(), False), ({"i-2"}, False)])
def test_what_the_driver_lists_elsewhere_is_recorded_as_not_attached(
    play: Play, elsewhere: set[str], attached: bool
):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        stage.storage.published |= {"another": {"i-1"}, "v": elsewhere}
        stage.controller.cache(VolumeAttachment).accept(await stage.record())
        await stage.controller.reconcile(VERIFY)
        assert (await stage.record()).status.attached is attached

    play(story)


def test_a_volume_that_is_not_listed_counts_as_attached(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        del stage.storage.published["v"]
        stage.controller.cache(VolumeAttachment).accept(await stage.record())
        await stage.controller.reconcile(VERIFY)
        assert (await stage.record()).status.attached

    play(story)


def test_a_driver_whose_list_never_ends_has_not_answered(play: Play):
    """Nothing is taken from what it lists, and other drivers are asked, too."""

    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        stage.storage.published["v"].clear()
        stage.storage.failing["ListVolumes"].delay_s, stage.storage.same_page = 1, True
        stage.controller.cache(VolumeAttachment).accept(await stage.record())
        await asyncio.wait_for(stage.controller.reconcile(VERIFY), 60)
        assert (await stage.record()).status.attached

    play(story)


def test_what_is_on_a_node_without_csinode_counts_as_attached_and_hinders_no_other_look(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        await stage.reconciled()
        lost = volume_attachment_name(CSI_PLUGIN, f"{NAME}^w", "a")
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        of_driver = {"driver": NAME, "volumeHandle": "w"}
        await stage.api.create(
            PersistentVolume, {"metadata": {"name": "pw"}, "spec": {**spec, "csi": of_driver}}
        )
        wish = {"attacher": NAME, "nodeName": "a", "source": {"persistentVolumeName": "pw"}}
        await stage.api.create(VolumeAttachment, {"metadata": {"name": lost}, "spec": wish})
        await stage.api.patch(VolumeAttachment, lost, {"status": {"attached": True}}, subresource="status")
        stage.storage.published |= {"v": set(), "w": set()}
        for name in (lost, RECORD):
            stage.controller.cache(VolumeAttachment).accept(await stage.api.get(VolumeAttachment, name))
        await stage.controller.reconcile(VERIFY)
        assert not (await stage.record()).status.attached
        assert (await stage.api.get(VolumeAttachment, lost)).status.attached

    play(story)


def test_a_stale_volume_of_the_same_name_is_not_what_is_attached(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        old = await stage.api.get(PersistentVolume, "pv")
        stage.controller.cache(PersistentVolume).accept(old)
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await stage.api.delete(PersistentVolume, "pv")
        await stage.api.delete(VolumeAttachment, RECORD)
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        new = {**spec, "csi": {"driver": NAME, "volumeHandle": "w"}}
        await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": new})
        name = volume_attachment_name(CSI_PLUGIN, f"{NAME}^w", "n")
        wanted = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        record = await stage.api.create(VolumeAttachment, {"metadata": {"name": name}, "spec": wanted})
        stage.controller.cache(VolumeAttachment).accept(record)
        await stage.controller.reconcile(name)
        assert stage.storage.published["w"] == {"i-1"}
        assert stage.storage.published["v"] == set()

    play(story)


def test_other_attachers_records_are_left_alone(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.set_up()
        spec = {"attacher": "other.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        record = await stage.api.create(VolumeAttachment, {"metadata": {"name": "theirs"}, "spec": spec})
        stage.controller.cache(VolumeAttachment).accept(record)
        await stage.controller.reconcile("theirs")
        assert stage.storage.calls == []

    play(story)


def test_secrets_are_read_for_the_call_and_written_nowhere(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        from mooring.kube.objects import Secret

        data = {"metadata": {"name": "keys"}, "data": {"token": "c2VjcmV0"}}
        await stage.api.create(Secret, data, "default")
        await stage.set_up(controllerPublishSecretRef={"name": "keys", "namespace": "default"})
        record = await stage.reconciled()
        ((_, asked),) = stage.storage.calls
        assert dict(asked.secrets) == {"token": "secret"}
        assert "secret" not in str(record).replace("detach-secret", "")
        await stage.api.delete(VolumeAttachment, RECORD)
        await stage.reconciled()
        name, detach = stage.storage.calls[-1]
        assert (name, dict(detach.secrets)) == ("ControllerUnpublishVolume", {"token": "secret"})
        assert isinstance(detach, csi.ControllerUnpublishVolumeRequest)

    play(story)


def test_a_volume_that_a_pod_defines_itself_is_written_in_the_record(play: Play):
    async def story(stage: CsiAttacherStage) -> None:
        await stage.register("i-1")
        inline = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": NAME, "volumeHandle": "v"}}
        spec = {"attacher": NAME, "nodeName": "n", "source": {"inlineVolumeSpec": inline}}
        await stage.api.create(VolumeAttachment, {"metadata": {"name": RECORD}, "spec": spec})
        record = await stage.reconciled()
        assert record is not None
        assert record.status.attached
        assert stage.storage.published["v"] == {"i-1"}
        await stage.api.delete(VolumeAttachment, RECORD)
        assert await stage.reconciled() is None
        assert stage.storage.published["v"] == set()

    play(story)


def test_a_storage_that_does_not_answer_leaves_workers_to_the_others():
    woken: list[str] = []
    slots = Slots({"given.example.com": 1}, woken.append, otherwise=3)
    assert [slots.take("hangs.example.com", f"va-{number}") for number in range(5)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert slots.take("other.example.com", "va")
    assert [slots.take("given.example.com", f"va-{number}") for number in range(2)] == [True, False]
    slots.free("hangs.example.com")
    assert woken == ["va-3"]
