"""The node's live look before a mount: each thing that it must see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.errors import Forbidden
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.kube.transport import InProcess
from mooring.node.volumes.handshake import NotAttachedYet, attachment_name, is_stale, look

NODE = "node-1"
VOLUME = "example.com/disk/d1"
NAME = attachment_name(VOLUME, NODE)

BOOT = "this boot"
INLINE = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "example.com", "volumeHandle": "d1"}}


class PermittedMount:
    """A Node and a VolumeAttachment that permit the mount."""

    async def start(self) -> None:
        self.server = Server.in_memory()
        await self.server.start()
        self.client = Client(InProcess(self.server.call, self.server.tokens.admin()))
        self.uid = (await self.client.create(Node, {"metadata": {"name": NODE}})).uid
        await self.node_status(nodeInfo={"bootID": BOOT})
        await self.node_status(
            volumesInUse=[VOLUME], volumesAttached=[{"name": VOLUME, "devicePath": "/dev/x"}]
        )
        await self.attach()

    async def attach(self, node: str = NODE, **source: Any) -> None:
        spec = {
            "attacher": "plugins.mooring.dev",
            "nodeName": node,
            "source": source or {"persistentVolumeName": "x"},
        }
        await self.client.create(VolumeAttachment, {"metadata": {"name": NAME}, "spec": spec})
        await self.attached(True)

    async def node_status(self, **status: Any) -> None:
        await self.client.patch(Node, NODE, {"status": status}, subresource="status")

    async def attached(self, attached: bool) -> None:
        await self.client.patch(
            VolumeAttachment, NAME, {"status": {"attached": attached}}, subresource="status"
        )

    async def lock(self, epoch: int) -> None:
        source = {"flexVolume": {"driver": "example.com/disk", "options": {"disk": "d1"}}}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
        lock = {"mooring.dev/attached-to": f'{{"epoch":{epoch},"node":"{NODE}"}}'}
        await self.client.create(
            PersistentVolume, {"metadata": {"name": "x", "annotations": lock}, "spec": spec}
        )

    async def annotate(self, **metadata: Any) -> None:
        await self.client.patch(VolumeAttachment, NAME, {"metadata": metadata})


Change = Callable[[PermittedMount], Any]


async def report_by_another_boot(stage: PermittedMount) -> None:
    await stage.node_status(nodeInfo={"bootID": "of a clone"})


async def make_for_another_machine(stage: PermittedMount) -> None:
    await stage.node_status(nodeInfo={"bootID": BOOT, "systemUUID": "present"})
    await stage.annotate(annotations={"mooring.dev/node-machine": "former "})


async def make_for_another_node(stage: PermittedMount) -> None:
    await stage.client.delete(VolumeAttachment, NAME)
    await stage.attach("node-2")


async def delete_held_by_a_finalizer(stage: PermittedMount) -> None:
    await stage.annotate(finalizers=["mooring.dev/attacher"])
    await stage.client.delete(VolumeAttachment, NAME)


def test_what_permits_a_mount_is_returned(run: Callable[[Any], Any]) -> None:
    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        permission = await look(stage.client, NODE, stage.uid, BOOT, VOLUME)
        attachment = await stage.client.get(VolumeAttachment, NAME)
        assert (permission.attachment, permission.attachment_uid) == (
            {"devicePath": "/dev/x"},
            attachment.uid,
        )
        assert not await is_stale(stage.client, NODE, VOLUME, attachment.uid)
        assert await is_stale(stage.client, NODE, VOLUME, "another")

    run(story())


def test_what_a_pod_defines_itself_has_no_lock(run: Callable[[Any], Any]) -> None:
    """Its attachment names no PersistentVolume that could have one."""

    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        await stage.client.delete(VolumeAttachment, NAME)
        await stage.attach(inlineVolumeSpec=INLINE)
        permission = await look(as_node(stage), NODE, stage.uid, BOOT, VOLUME)
        assert (permission.attachment, permission.epoch) == ({"devicePath": "/dev/x"}, 0)

    run(story())


def test_an_attachment_of_the_locks_epoch_permits_it(run: Callable[[Any], Any]) -> None:
    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        await stage.lock(3)
        await stage.annotate(annotations={"mooring.dev/attach-epoch": "3"})
        permission = await look(stage.client, NODE, stage.uid, BOOT, VOLUME)
        assert (permission.attachment, permission.epoch) == ({"devicePath": "/dev/x"}, 3)

    run(story())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda stage: stage.node_status(volumesInUse=[]), "volumesInUse"),
        (lambda stage: stage.node_status(volumesAttached=[]), "volumesAttached"),
        (lambda stage: stage.client.delete(Node, NODE), "does not exist any more"),
        (lambda stage: stage.client.delete(VolumeAttachment, NAME), "does not exist"),
        (report_by_another_boot, "another agent's"),
        (make_for_another_machine, "was made for another machine"),
        (make_for_another_node, "is for node node-2"),
        (lambda stage: stage.attached(False), "is not attached"),
        (lambda stage: stage.annotate(annotations={"mooring.dev/detaching": "x"}), "is being detached"),
        (delete_held_by_a_finalizer, "is being deleted"),
        (lambda stage: stage.lock(3), "is of epoch 0, but the lock of PersistentVolume x is at epoch 3"),
    ],
)
def test_anything_less_does_not_permit_it(run: Callable[[Any], Any], change: Change, words: str) -> None:
    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        await change(stage)
        with pytest.raises(NotAttachedYet, match=words):
            await look(stage.client, NODE, stage.uid, BOOT, VOLUME)

    run(story())


def test_a_node_of_another_uid_is_not_ours(run: Callable[[Any], Any]) -> None:
    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        with pytest.raises(NotAttachedYet, match="registered anew"):
            await look(stage.client, NODE, "the uid of before", BOOT, VOLUME)

    run(story())


def as_node(stage: PermittedMount) -> Client:
    """The node's own client: of what does not belong to it the server says only that it may not."""
    return Client(InProcess(stage.server.call, stage.server.tokens.node(NODE)))


def test_a_node_takes_a_refused_attachment_for_none(run: Callable[[Any], Any]) -> None:
    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        node = as_node(stage)
        with pytest.raises(NotAttachedYet, match="PersistentVolume x, which no pod of node"):
            await look(node, NODE, stage.uid, BOOT, VOLUME)
        await stage.annotate(annotations={"mooring.dev/inline-volume": "{}"})
        assert (await look(node, NODE, stage.uid, BOOT, VOLUME)).attachment == {"devicePath": "/dev/x"}
        await stage.client.delete(VolumeAttachment, NAME)
        with pytest.raises(NotAttachedYet, match="does not exist"):
            await look(node, NODE, stage.uid, BOOT, VOLUME)

    run(story())


def test_a_refused_attachment_is_gone_only_if_the_node_does_not_list_the_volume(
    run: Callable[[Any], Any],
) -> None:
    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        node, uid = as_node(stage), (await stage.client.get(VolumeAttachment, NAME)).uid
        assert not await is_stale(node, NODE, VOLUME, uid)
        await stage.client.delete(VolumeAttachment, NAME)
        with pytest.raises(Forbidden):
            await is_stale(node, NODE, VOLUME, uid)
        await stage.node_status(volumesAttached=[])
        assert await is_stale(node, NODE, VOLUME, uid)
        await stage.client.delete(Node, NODE)
        assert await is_stale(node, NODE, VOLUME, uid)

    run(story())


def test_a_mount_whose_attachment_is_gone_is_stale_whatever_the_server_says_of_that(
    run: Callable[[Any], Any],
) -> None:
    """A server without the Node authorizer says that it is not found."""

    async def story() -> None:
        stage = PermittedMount()
        await stage.start()
        uid = (await stage.client.get(VolumeAttachment, NAME)).uid
        await stage.client.delete(VolumeAttachment, NAME)
        assert await is_stale(stage.client, NODE, VOLUME, uid)

    run(story())
