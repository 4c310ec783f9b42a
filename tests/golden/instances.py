"""The schedules of docs/protocol.md that two instances of the attach/detach controller, or one and a node,
come to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest
from tests.golden.scene import InstancesScene as Scene

from mooring.kube.errors import NotFound, Unreachable
from mooring.kube.objects import Node, VolumeAttachment
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.names import FENCE_EVIDENCE
from mooring.volumes.statements import annotation, statement_about

Patch = pytest.MonkeyPatch
VOLUME = "example.com/disk/d1"
STATUS = request("PATCH", "/nodes/n0/status")
CREATE = request("POST", "/volumeattachments")
DELETE = request("DELETE", "/volumeattachments/")
TAINTED_AT = "2030-01-01T00:00:05Z"


async def gives_up(work: Awaitable[Any]) -> None:
    with pytest.raises(Unreachable):
        await work


async def mounted(scene: Scene) -> None:
    await scene.step("A attaches d1 to n0 and reports it; n0 mounts it")
    await scene.attached(scene.a)
    await scene.report(scene.a)
    await scene.mounts()


async def silent(scene: Scene, why: str) -> None:
    await scene.step(f"{why}; the node lifecycle controller sees no heartbeat")
    scene.who("lifecycle")
    await scene.n0_seen.falls_silent()


async def tainted(scene: Scene, why: str) -> None:
    await scene.step(why)
    scene.who("operator")
    await scene.n0_seen.taint(TAINTED_AT)


async def written(scene: Scene, who: str, **annotations: str) -> None:
    """`who` writes on d1's VolumeAttachment on n0."""
    scene.who(who)
    record = await scene.find()
    assert record is not None
    await scene.api.patch(VolumeAttachment, record.name, {"metadata": {"annotations": annotations}})


async def boots(scene: Scene, boot: str) -> None:
    await scene.n0.api.patch(Node, "n0", {"status": {"nodeInfo": {"bootID": boot}}}, subresource="status")


# --- two instances


async def late_report(scene: Scene) -> None:
    await scene.step("A has d1 attached to n0")
    await scene.attached(scene.a)
    await scene.step("A reports d1 to n0, but the write is on its way for long: A gives it up")
    late = scene.a.wire.late(STATUS)
    await gives_up(scene.report(scene.a))
    await scene.step("B finds that no pod wants d1 any more, and detaches it")
    await scene.detach(scene.b)
    await scene.step("A's write arrives")
    await late.deliver()
    await scene.step("A pod comes back to n0")
    await scene.mounts()


async def unanswered_deletion(scene: Scene) -> None:
    await scene.step("A has d1 attached to n0; from here on B's caches learn of nothing new")
    await scene.attached(scene.a)
    scene.b.freeze()
    await scene.step("A detaches d1; the deletion takes effect, and its answer is lost")
    scene.a.wire.unanswered(DELETE)
    await gives_up(scene.detach(scene.a))
    await scene.step("B, whose cache still has the VolumeAttachment, reports d1")
    try:
        await scene.report(scene.b)
    except NotFound:
        scene.say("the live read finds no VolumeAttachment: nothing is reported")
    await scene.step("A pod comes back to n0")
    await scene.mounts()


async def late_deletion(scene: Scene) -> None:
    await scene.step("A has d1 attached to n0")
    await scene.attached(scene.a)
    await scene.step("A detaches d1, but the deletion is on its way for long: A gives it up")
    late = scene.a.wire.late(DELETE)
    await gives_up(scene.detach(scene.a))
    await scene.step("A pod wants d1 on n0 again: B takes the mark back, reports d1, and n0 mounts it")
    await scene.b.handshake.restore(scene.b.record())
    await scene.report(scene.b)
    await scene.mounts()
    await scene.step("A's deletion arrives")
    await late.deliver()


async def write_for_another_volume(scene: Scene) -> None:
    scene.volumes = ("d1", "d2")
    await scene.step("A has d1 and d2 attached to n0, and has reported d1")
    await scene.attached(scene.a, "d1")
    await scene.attached(scene.a, "d2")
    await scene.report(scene.a)
    await scene.step(
        "A reports d2. The list is written whole, so d1 is in it. The write is on its way for long"
    )
    late = scene.a.wire.late(STATUS)
    await gives_up(scene.report(scene.a, "d2"))
    await scene.step("B finds that no pod wants d1 any more, and detaches it")
    await scene.detach(scene.b)
    await scene.step("A's write arrives")
    await late.deliver()
    await scene.step("A pod that wants d1 comes back to n0")
    await scene.mounts()


# --- what releases a volume by force


async def judged_too_early(scene: Scene) -> None:
    await mounted(scene)
    await silent(scene, "n0 is cut off")
    await tainted(scene, "An operator declares n0 out of service. They are wrong: it still runs")
    await scene.step("A sees the taint and detaches d1; its un-report waits on the way")
    write = scene.a.wire.hold(STATUS)
    detaching = asyncio.create_task(scene.detach(scene.a))
    await write.arrived.wait()
    await scene.step("n0 is reachable again, and its agent reports")
    await scene.n0.report()
    await scene.step("A's un-report arrives")
    write.release()
    await detaching


async def fenced(scene: Scene, begun: str = "") -> None:
    await scene.step("n0 runs boot b1")
    await boots(scene, "b1")
    await mounted(scene)
    await scene.step(
        "A fence cuts the power of n0. Its evidence names the uid and the boot that the API showed"
    )
    node = await scene.look.get(Node, "n0")
    evidence = {"nodeUID": node.uid, "bootID": "b1", "begun": begun, "by": "ipmi"}
    await written(scene, "fence", **{FENCE_EVIDENCE: msgspec.json.encode(evidence).decode()})
    scene.n0.mounted.clear()


async def another_boot(scene: Scene) -> None:
    await fenced(scene)
    await scene.step("n0 gets power again: boot b2 mounts d1, under the same VolumeAttachment")
    await boots(scene, "b2")
    await scene.mounts()
    await silent(scene, "n0 is cut off, and goes on writing")
    await scene.step("A detaches d1; the evidence is still there")
    await scene.detach(scene.a)


async def absent_node(scene: Scene) -> None:
    await fenced(scene, begun="2030-01-01T00:00:00Z")
    await scene.step("n0 gets power again: boot b2 mounts d1, under the same VolumeAttachment")
    await boots(scene, "b2")
    await scene.mounts()
    await scene.step("A user deletes the Node object; the machine goes on writing")
    scene.who("user")
    await scene.api.delete(Node, "n0")
    await scene.step("A detaches d1; the evidence is older than the absence of the Node")
    await scene.detach(scene.a)


async def not_ready(scene: Scene) -> None:
    await mounted(scene)
    await scene.step("n0's agent is alive and says that its node is not ready")
    await scene.n0.report(ready="False")
    await tainted(scene, "An operator declares n0 out of service")
    await scene.step("A detaches d1")
    await scene.detach(scene.a)


async def left_over_taint(scene: Scene) -> None:
    await scene.step("A has d1 attached to n0 and reports it")
    await scene.attached(scene.a)
    await scene.report(scene.a)
    await silent(scene, "n0 loses power")
    await tainted(scene, "An operator declares n0 out of service, rightly")
    await scene.step(
        "n0 is on again and mounts d1. Its report says that it has seen the taint; the taint stays"
    )
    await scene.n0.report()
    await scene.mounts()
    await silent(scene, "Later n0 is only cut off, and goes on writing")
    await scene.step("A detaches d1")
    await scene.detach(scene.a)


async def wrong_deletion(scene: Scene) -> None:
    await mounted(scene)
    await scene.step("n0 is cut off and goes on writing; a user deletes its Node object")
    scene.who("user")
    await scene.api.delete(Node, "n0")
    await scene.step("A detaches d1")
    await scene.detach(scene.a, scene.a.terms(scene, node_deletion_confirms_death=scene.trusts_deletion))
    await asyncio.sleep(41)
    await scene.step("41 s later A detaches d1 again")
    await scene.detach(scene.a, scene.a.terms(scene, node_deletion_confirms_death=scene.trusts_deletion))


async def stale_statement(scene: Scene) -> None:
    await scene.step("n0 runs boot b1; A has d1 attached to it and reports it")
    await boots(scene, "b1")
    await scene.attached(scene.a)
    await scene.report(scene.a)
    await silent(scene, "n0 loses power")
    await scene.step("An operator states that n0 is off, rightly (mooring node confirm-dead)")
    node = await scene.look.get(Node, "n0")
    await written(scene, "operator", **annotation(statement_about(node, "an operator", "now")))
    await scene.step("n0 gets power again: boot b2 mounts d1, under the same VolumeAttachment")
    await boots(scene, "b2")
    await scene.mounts()
    await silent(scene, "n0 is cut off, and goes on writing")
    await scene.step("A detaches d1; the statement is still there")
    await scene.detach(scene.a)


async def registered_anew(scene: Scene) -> None:
    await mounted(scene)
    await scene.step(
        "The Node object is deleted, and registered anew before the agent has looked at its mounts"
    )
    scene.who("user")
    await scene.api.delete(Node, "n0")
    await scene.n0.register(reconstructed=False)
    await scene.step("A detaches d1: nothing is in use, says the new Node")
    await scene.detach(scene.a)
