"""The schedules of docs/protocol.md about the lock on the PersistentVolume: C14, and C16 after a force
detach."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.golden.instances import boots, gives_up, silent, written
from tests.golden.scene import InstancesScene as Scene

from mooring.kube.errors import Conflict
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.spec import VolumeSpec

VOLUME = "example.com/disk/d1"
CREATE = request("POST", "/volumeattachments")


async def granted(scene: Scene, leader: Any, node: str, pod: str) -> VolumeAttachment:
    live = await scene.look.get(PersistentVolume, "pv-d1")
    there = await scene.look.get(Node, node)
    spec = VolumeSpec.of_persistent_volume(live)
    record = await leader.handshake.attach(VOLUME, there, spec, locked=True, pod=pod)
    return await scene.fulfilled(record)


async def late_creation(scene: Scene) -> None:
    scene.nodes = ("n0", "n1")
    await scene.step("d1 is of storage that attaches to any node that asks; n1 is there, too")
    scene.who("user")
    await scene.persistent_volume()
    await scene.n1.register()
    await scene.step(
        "A grants the lock of d1 to n0; the creation of the VolumeAttachment is on its way for long"
    )
    late = scene.a.wire.late(CREATE)
    await gives_up(granted(scene, scene.a, "n0", "default/p"))
    await scene.step("The pod is on n1 by now: B swaps the lock, lists, and creates; d1 is mounted on n1")
    await granted(scene, scene.b, "n1", "default/q")
    await asyncio.sleep(0.1)
    await scene.b.handshake.report(scene.b.record(node="n1"), locked=True)
    await scene.mounts("n1")
    await scene.step("A's creation arrives, and an attacher that does not compare epochs carries it out")
    await late.deliver()
    found = await scene.find()
    assert found is not None
    await scene.fulfilled(found)
    await scene.step("A pod comes back to n0: B would report d1 there")
    await scene.report(scene.b, locked=True)
    await scene.mounts()
    if scene.n0.mounted and scene.n1.mounted:
        scene.say("HARM: d1 is mounted on two nodes, and both write")


# --- after a release by force


async def taken_by_force(scene: Scene) -> None:
    await boots(scene, "b1")
    await granted(scene, scene.a, "n0", "default/p")
    await asyncio.sleep(0.1)
    await scene.report(scene.a, locked=True)
    await scene.mounts()
    await silent(scene, "n0 is cut off, and keeps its mount")
    await scene.step("The timer of the forced detach has run out: A takes d1 from n0")
    await written(scene, "A", **{"mooring.dev/force-detach-since": "2029-01-01T00:00:00Z"})
    await asyncio.sleep(0.1)
    await scene.detach(scene.a, scene.a.terms(scene, force_detach_after=360.0))


async def attached_again(scene: Scene) -> None:
    scene.revokes = True
    await scene.step(
        "The storage revokes the access of a node from which it detaches, but would attach anywhere"
    )
    scene.who("user")
    await scene.persistent_volume()
    await scene.step("A grants d1 to n0, boot b1; n0 mounts it")
    await taken_by_force(scene)
    await scene.step("n0 is there again: the same boot, and the old mount. Its agent reports d1 in use")
    await scene.n0.report(in_use=(VOLUME,))
    await scene.step("A pod wants d1 on n0: B grants the lock")
    try:
        await granted(scene, scene.b, "n0", "default/q")
        scene.say("HARM: the storage lets n0 write again, and the mount is the old one")
    except Conflict as refusal:
        scene.say(f"refused: {refusal}")


async def late_creation_after_force(scene: Scene) -> None:
    scene.revokes = True
    await scene.step("B grants d1 to n0; the creation of the VolumeAttachment is on its way for long")
    scene.who("user")
    await scene.persistent_volume()
    late = scene.b.wire.late(CREATE)
    await gives_up(granted(scene, scene.b, "n0", "default/p"))
    await scene.step("A grants d1 to n0 once more, boot b1; n0 mounts it")
    await taken_by_force(scene)
    await scene.step("B's creation arrives, and is carried out; n0 is there again with its old mount")
    await late.deliver()
    found = await scene.find()
    assert found is not None
    await scene.fulfilled(found)
    await scene.n0.report(in_use=(VOLUME,))
    await asyncio.sleep(0.1)
    await scene.step("B would report d1 to n0")
    if await scene.report(scene.b, locked=True):
        scene.say("HARM: n0 is told that d1 is attached to it, and its mount is the old one")
