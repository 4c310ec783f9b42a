"""What each step writes, and that a write which fails is an error of the step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects import (
    AWSElasticBlockStoreVolumeSource,
    FlexVolumeSource,
    Node,
    ObjectMeta,
    PersistentVolume,
    Volume,
    VolumeAttachment,
)
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.attachment_lock import Lock, annotation
from mooring.volumes.names import (
    ATTACH_EPOCH,
    BROKEN,
    DETACHING,
    INLINE_VOLUME,
    NODE_ABSENT_SINCE,
    NODE_MACHINE,
    NODE_UID,
    PLUGIN,
    VOLUME_NAME,
)
from mooring.volumes.spec import VolumeSpec

Play = Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]
VOLUME = "example.com/disk/d1"
MACHINE = "6a2e9c1e-0000-4000-8000-000000000001"


async def of_machine(stage: Any) -> Node:
    status = {"status": {"nodeInfo": {"systemUUID": MACHINE}}}
    return await stage.api.patch(Node, "n0", status, subresource="status")


def of_plugin(node: Node) -> dict[str, str]:
    """What each VolumeAttachment of the disk on that node says."""
    of_node = {NODE_UID: node.uid, NODE_MACHINE: f"{MACHINE} "}
    return {PLUGIN: "example.com/disk", VOLUME_NAME: "d1", **of_node}


@pytest.mark.parametrize("epoch", [0, 5])
def test_a_record_says_which_volume_it_is_and_for_which_node_machine_and_epoch_it_was_made(
    play: Play, epoch: int
):
    async def schedule(stage: Any, a: Any, b: Any):
        node = await of_machine(stage)
        lock = annotation(Lock(epoch)) if epoch else {}
        volume = PersistentVolume(metadata=ObjectMeta(name="pv-d1", annotations=lock))
        made = await a.handshake.attach(
            VOLUME, node, VolumeSpec.of_persistent_volume(volume), locked=False, pod=""
        )
        epochs = {ATTACH_EPOCH: str(epoch)} if epoch else {}
        assert made.metadata.annotations == {**of_plugin(node), **epochs}
        assert (made.spec.attacher, made.spec.node_name) == ("plugins.mooring.dev", "n0")
        assert made.spec.source.persistent_volume_name == "pv-d1"
        assert a.record() == made, "it is in the cache at once"

    play(schedule)


def test_a_record_of_a_volume_that_a_pod_defines_carries_the_definition(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        node = await of_machine(stage)
        volume = Volume(name="data", flex_volume=FlexVolumeSource("example.com/disk", options={"disk": "d1"}))
        made = await a.handshake.attach(VOLUME, node, VolumeSpec.of_volume(volume), locked=False, pod="")
        notes = dict(made.metadata.annotations)
        written = json.loads(notes.pop(INLINE_VOLUME))
        assert written["name"] == "data"
        assert (written["flexVolume"]["driver"], written["flexVolume"]["options"]) == (
            "example.com/disk",
            {"disk": "d1"},
        )
        assert notes == of_plugin(node)
        assert (made.spec.source.persistent_volume_name or "").startswith("inline-")
        assert made.spec.source.inline_volume_spec is None

    play(schedule)


def test_a_record_of_an_in_tree_volume_that_a_pod_defines_carries_what_its_csi_driver_needs(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        volume = Volume(name="data", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource("vol-1"))
        name = "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
        node = await stage.api.get(Node, "n0")
        made = await a.handshake.attach(name, node, VolumeSpec.of_volume(volume), locked=False, pod="")
        assert INLINE_VOLUME not in made.metadata.annotations
        assert made.spec.source.persistent_volume_name is None
        written: Any = made.spec.source.inline_volume_spec
        assert (written["volumeMode"], written["csi"]["volumeHandle"]) == ("Filesystem", "vol-1")

    play(schedule)


def test_what_the_controller_has_created_itself_is_no_news_to_it(play: Play):
    """Else each attach would be decided about twice."""

    async def schedule(stage: Any, a: Any, b: Any):
        told: list[Any] = []
        a.freeze()
        a.records.add_handler(lambda old, new: told.append(new))
        volume = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv-d1")))
        made = await a.handshake.attach(VOLUME, await stage.api.get(Node, "n0"), volume, locked=False, pod="")
        assert (a.record(), told) == (made, [])
        marked = await stage.api.get(VolumeAttachment, made.name)
        await a.handshake.note(marked, [(BROKEN, "by me")])
        assert told == [a.record()], "what it has written may show what others have"
        assert a.record().metadata.annotations[BROKEN] == "by me"

    play(schedule)


@pytest.mark.parametrize(
    ("ready", "lost"),
    [
        ("True", f'"{DETACHING}":"'),
        ("Unknown", f'"{DETACHING}":null'),
        ("absent", f'"{NODE_ABSENT_SINCE}"'),
        ("broken", "mooring.dev/attached-to"),
    ],
    ids=["the mark", "to take it back", "to look once more", "the force detach"],
)
def test_a_detach_whose_write_fails_is_an_error_and_the_record_stays(play: Play, ready: str, lost: str):
    """So that it is tried again. A force detach is on the PersistentVolume first (C16)."""

    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        record = await stage.attached(a)
        terms = a.terms(stage, node_deletion_confirms_death=True)
        if ready == "Unknown":
            await stage.n0.report(ready="Unknown", in_use=(VOLUME,))
        elif ready == "absent":
            await stage.api.delete(Node, "n0")
        elif ready == "broken":
            patch = {"metadata": {"annotations": {BROKEN: "by me"}}}
            await stage.api.patch(VolumeAttachment, record.name, patch)
        await asyncio.sleep(0.1)
        a.wire.lose(request("PATCH", "", lost))
        with pytest.raises(Unreachable):
            await a.handshake.detach(a.record(), terms)
        assert await stage.find() is not None

    play(schedule)


async def take(stage: Any, leader: Any, step: str, record: VolumeAttachment) -> None:
    node = await stage.api.get(Node, "n0")
    more = {"restamp": (node,), "grant": (node, "default/p"), "note": ([(BROKEN, None)],)}
    await getattr(leader.handshake, step)(record, *more.get(step, ()))


STEPS = ("restamp", "grant", "restore", "note", "detach")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_whose_record_cannot_be_written_is_an_error(play: Play, step: str):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        record = await stage.attached(a)
        a.wire.lose(request("PATCH", "/volumeattachments/"))
        with pytest.raises(Unreachable):
            await take(stage, a, step, record)

    play(schedule)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_was_decided_on_an_older_record_writes_nothing_on_it(play: Play, step: str):
    """What was written since might have been decided upon otherwise."""

    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        record = await stage.attached(a)
        newer = await stage.api.patch(
            VolumeAttachment, record.name, {"metadata": {"annotations": {BROKEN: "by me"}}}
        )
        with pytest.raises(Conflict):
            await take(stage, a, step, record)
        assert await stage.find() == newer

    play(schedule)


def test_no_more_than_thirty_two_records_are_written_at_once(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        post = request("POST", "/volumeattachments")
        held = [a.wire.hold(post) for _ in range(40)]
        node = await stage.api.get(Node, "n0")

        def spec(disk: str) -> VolumeSpec:
            return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name=f"pv-{disk}")))

        disks = [f"d{number}" for number in range(40)]
        writing = [
            asyncio.create_task(
                a.handshake.attach(f"example.com/disk/{disk}", node, spec(disk), locked=False, pod="")
            )
            for disk in disks
        ]
        await asyncio.sleep(1)
        assert sum(each.arrived.is_set() for each in held) == 32
        for each in held:
            each.release()
        assert len(await asyncio.gather(*writing)) == 40

    play(schedule)
