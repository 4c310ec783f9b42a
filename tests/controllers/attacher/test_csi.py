"""VolumeAttachments of a CSI driver: what is written before and after each call, and what
failed calls mean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import pytest
from played_driver import ALL, NAME, C, Storage, plugin

from mooring.controllers.attacher.controller import VERIFY, AttacherController
from mooring.controllers.attacher.slots import Slots
from mooring.csi.driver.services import ControllerCapability
from mooring.csi.errors import Code
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.keys import VolumeKey
from mooring.kube.objects import CSINode, PersistentVolume, VolumeAttachment
from mooring.volumes.errors import NotAsked, OutcomeUnknown, StorageRefused
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import CSI_PLUGIN, volume_attachment_name
from mooring.volumes.plugin_manager import PluginManager

Desk = Callable[[Any], Any]
RECORD = volume_attachment_name(CSI_PLUGIN, f"{NAME}^v", "n")
FINALIZER = "external-attacher/played-example-com"


class Bench:
    """A PersistentVolume of handle v, and a VolumeAttachment that wants it on n, which the
    driver calls i-1."""

    def __init__(self, desk: Any, capabilities: Collection[ControllerCapability] = ALL) -> None:
        self.desk, self.api = desk, desk.api
        self.storage = Storage()
        host = ControllerVolumeHost(desk.now, {CSI_PLUGIN: {NAME: "here"}}, desk.api)
        plugins = PluginManager([plugin(self.storage, capabilities=capabilities)], host)
        self.make = lambda: desk.make(AttacherController, plugins=plugins)
        self.controller = self.make()

    async def set_up(self, *, registered: bool = True, **source: Any) -> None:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        of_driver = {"driver": NAME, "volumeHandle": "v", **source}
        await self.api.create(
            PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, "csi": of_driver}}
        )
        if registered:
            await self.register("i-1")
        await self.want()

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


def play(desk: Desk, story: Callable[[Bench], Any], **options: Any) -> None:
    async def scene(desk: Any) -> None:
        await story(Bench(desk, **options))

    desk(scene)


def test_what_a_detach_will_need_is_stored_before_the_driver_is_asked(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up(readOnly=True, volumeAttributes={"tier": "gold"})
        record = await bench.reconciled()
        assert record is not None
        assert record.status.attached
        assert record.status.attachment_metadata == {"lun": "7"}
        assert FINALIZER in record.metadata.finalizers
        assert record.metadata.annotations["csi.alpha.kubernetes.io/node-id"] == "i-1"
        assert record.metadata.annotations["mooring.dev/volume-name"] == f"{NAME}^v"
        ((_, asked),) = bench.storage.calls
        assert (asked.volume_id, asked.node_id, dict(asked.volume_context)) == ("v", "i-1", {"tier": "gold"})
        assert not asked.readonly, "the driver lacks PUBLISH_READONLY: the mount is read-only"

    play(desk, story)


def test_one_attach_is_one_call(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        await bench.reconciled()
        await bench.reconciled()
        assert bench.storage.methods() == ["ControllerPublishVolume"]

    play(desk, story)


def test_the_node_id_that_is_noted_is_the_one_that_is_sent(desk: Desk):
    """One read of the CSINode for an attach; and what a detach will use is what was attached."""

    async def story(bench: Bench) -> None:
        await bench.set_up()
        await bench.reconciled()
        asked = [sent for sent in bench.desk.wire.sent if sent.startswith("GET") and "csinodes" in sent]
        assert len(asked) == 1

    play(desk, story)


def test_a_detach_needs_neither_volume_nor_node_nor_csinode(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        await bench.reconciled()
        await bench.api.delete(CSINode, "n")
        await bench.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await bench.api.delete(PersistentVolume, "pv")
        await bench.api.delete(VolumeAttachment, RECORD)
        assert await bench.reconciled() is None
        assert bench.storage.published["v"] == set()

    play(desk, story)


def test_what_upstreams_attacher_has_attached_is_detached(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up(registered=False)
        bench.storage.published["v"] = {"i-1"}
        note = {"csi.alpha.kubernetes.io/node-id": "i-1"}
        patch = {"metadata": {"finalizers": [FINALIZER], "annotations": note}}
        await bench.api.patch(VolumeAttachment, RECORD, patch)
        await bench.api.patch(VolumeAttachment, RECORD, {"status": {"attached": True}}, subresource="status")
        await bench.api.delete(VolumeAttachment, RECORD)
        assert await bench.reconciled() is None
        assert bench.storage.published["v"] == set()

    play(desk, story)


def test_upstreams_finalizer_of_a_volume_goes_when_it_is_attached_nowhere(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        await bench.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": [FINALIZER]}})
        await bench.api.delete(PersistentVolume, "pv")
        await bench.controller.reconcile(VolumeKey("pv"))
        assert await bench.api.find(PersistentVolume, "pv") is not None, "a VolumeAttachment names it"
        await bench.api.delete(VolumeAttachment, RECORD)
        await bench.controller.reconcile(VolumeKey("pv"))
        assert await bench.api.find(PersistentVolume, "pv") is None

    play(desk, story)


def test_a_node_whose_driver_has_not_registered_is_said_and_nothing_is_asked(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up(registered=False)
        with pytest.raises(NotAsked, match="has not registered"):
            await bench.reconciled()
        record = await bench.record()
        assert record.status.attach_error is not None
        assert "CSINode n does not list driver" in record.status.attach_error.message
        assert bench.storage.calls == []
        await bench.register("i-9")
        await bench.reconciled()
        assert bench.storage.published["v"] == {"i-9"}

    play(desk, story)


def test_a_deletion_that_comes_with_the_answer_to_a_noted_error_is_acted_upon(desk: Desk):
    """The watch shows nothing of it: the cache is newer already."""

    async def story(bench: Bench) -> None:
        await bench.set_up()
        bench.storage.failing["ControllerPublishVolume"].errors = [Code.UNAVAILABLE]
        bench.storage.failing["ControllerPublishVolume"].delay_s = 1.0
        working = asyncio.create_task(bench.reconciled())
        await asyncio.sleep(0.5)
        await bench.api.delete(VolumeAttachment, RECORD)
        bench.controller.queue._dirty.clear()
        with pytest.raises(OutcomeUnknown):
            await working
        assert RECORD in bench.controller.queue._dirty

    play(desk, story)


def test_a_refusal_is_no_request_that_is_outstanding(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        bench.storage.published["v"] = {"i-2"}
        with pytest.raises(StorageRefused, match="published to i-2"):
            await bench.reconciled()
        assert "mooring.dev/attach-requested-at" not in (await bench.record()).metadata.annotations
        await bench.api.delete(VolumeAttachment, RECORD)
        assert await bench.reconciled() is None, "nothing has to be waited for"

    play(desk, story)


def test_after_an_unanswered_attach_the_record_stays_until_nothing_can_happen_any_more(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        bench.storage.failing["ControllerPublishVolume"].errors = [Code.DEADLINE_EXCEEDED]
        bench.storage.failing["ControllerPublishVolume"].after = True
        with pytest.raises(OutcomeUnknown):
            await bench.reconciled()
        await bench.api.delete(VolumeAttachment, RECORD)
        held = await bench.reconciled()
        assert bench.storage.published["v"] == set(), "the driver was asked to detach it at once"
        assert held is not None, "and the attach may still be carried out"

    play(desk, story)


def test_a_driver_that_attaches_nothing_is_asked_nothing(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up(registered=False)
        record = await bench.reconciled()
        assert record is not None
        assert record.status.attached
        assert bench.storage.calls == []
        await bench.api.delete(VolumeAttachment, RECORD)
        assert await bench.reconciled() is None

    play(desk, story, capabilities=[C.CREATE_DELETE_VOLUME])


@pytest.mark.parametrize(("elsewhere", "attached"), [({"i-1"}, True), (set(), False), ({"i-2"}, False)])
def test_what_the_driver_lists_elsewhere_is_recorded_as_not_attached(
    desk: Desk, elsewhere: set[str], attached: bool
):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        await bench.reconciled()
        bench.storage.published |= {"another": {"i-1"}, "v": elsewhere}
        bench.controller.cache(VolumeAttachment).accept(await bench.record())
        await bench.controller.reconcile(VERIFY)
        assert (await bench.record()).status.attached is attached

    play(desk, story)


def test_a_volume_that_is_not_listed_counts_as_attached(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        await bench.reconciled()
        del bench.storage.published["v"]
        bench.controller.cache(VolumeAttachment).accept(await bench.record())
        await bench.controller.reconcile(VERIFY)
        assert (await bench.record()).status.attached

    play(desk, story)


def test_what_is_on_a_node_without_csinode_counts_as_attached_and_hinders_no_other_look(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        await bench.reconciled()
        lost = volume_attachment_name(CSI_PLUGIN, f"{NAME}^w", "a")
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        of_driver = {"driver": NAME, "volumeHandle": "w"}
        await bench.api.create(
            PersistentVolume, {"metadata": {"name": "pw"}, "spec": {**spec, "csi": of_driver}}
        )
        wish = {"attacher": NAME, "nodeName": "a", "source": {"persistentVolumeName": "pw"}}
        await bench.api.create(VolumeAttachment, {"metadata": {"name": lost}, "spec": wish})
        await bench.api.patch(VolumeAttachment, lost, {"status": {"attached": True}}, subresource="status")
        bench.storage.published |= {"v": set(), "w": set()}
        for name in (lost, RECORD):
            bench.controller.cache(VolumeAttachment).accept(await bench.api.get(VolumeAttachment, name))
        await bench.controller.reconcile(VERIFY)
        assert not (await bench.record()).status.attached
        assert (await bench.api.get(VolumeAttachment, lost)).status.attached

    play(desk, story)


def test_a_stale_volume_of_the_same_name_is_not_what_is_attached(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        old = await bench.api.get(PersistentVolume, "pv")
        bench.controller.cache(PersistentVolume).accept(old)
        await bench.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})
        await bench.api.delete(PersistentVolume, "pv")
        await bench.api.delete(VolumeAttachment, RECORD)
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        new = {**spec, "csi": {"driver": NAME, "volumeHandle": "w"}}
        await bench.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": new})
        name = volume_attachment_name(CSI_PLUGIN, f"{NAME}^w", "n")
        wanted = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        record = await bench.api.create(VolumeAttachment, {"metadata": {"name": name}, "spec": wanted})
        bench.controller.cache(VolumeAttachment).accept(record)
        await bench.controller.reconcile(name)
        assert bench.storage.published["w"] == {"i-1"}
        assert bench.storage.published["v"] == set()

    play(desk, story)


def test_other_attachers_records_are_left_alone(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.set_up()
        spec = {"attacher": "other.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        record = await bench.api.create(VolumeAttachment, {"metadata": {"name": "theirs"}, "spec": spec})
        bench.controller.cache(VolumeAttachment).accept(record)
        await bench.controller.reconcile("theirs")
        assert bench.storage.calls == []

    play(desk, story)


def test_secrets_are_read_for_the_call_and_written_nowhere(desk: Desk):
    async def story(bench: Bench) -> None:
        from mooring.kube.objects import Secret

        data = {"metadata": {"name": "keys"}, "data": {"token": "c2VjcmV0"}}
        await bench.api.create(Secret, data, "default")
        await bench.set_up(controllerPublishSecretRef={"name": "keys", "namespace": "default"})
        record = await bench.reconciled()
        ((_, asked),) = bench.storage.calls
        assert dict(asked.secrets) == {"token": "secret"}
        assert "secret" not in str(record).replace("detach-secret", "")
        await bench.api.delete(VolumeAttachment, RECORD)
        await bench.reconciled()
        name, detach = bench.storage.calls[-1]
        assert (name, dict(detach.secrets)) == ("ControllerUnpublishVolume", {"token": "secret"})
        assert isinstance(detach, csi.ControllerUnpublishVolumeRequest)

    play(desk, story)


def test_a_volume_that_a_pod_defines_itself_is_written_in_the_record(desk: Desk):
    async def story(bench: Bench) -> None:
        await bench.register("i-1")
        inline = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": NAME, "volumeHandle": "v"}}
        spec = {"attacher": NAME, "nodeName": "n", "source": {"inlineVolumeSpec": inline}}
        await bench.api.create(VolumeAttachment, {"metadata": {"name": RECORD}, "spec": spec})
        record = await bench.reconciled()
        assert record is not None
        assert record.status.attached
        assert bench.storage.published["v"] == {"i-1"}
        await bench.api.delete(VolumeAttachment, RECORD)
        assert await bench.reconciled() is None
        assert bench.storage.published["v"] == set()

    play(desk, story)


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
