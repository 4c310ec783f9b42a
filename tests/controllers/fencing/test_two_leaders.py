"""Two fencing controllers: one whose last write is still on its way when its lease is over, and its
successor, which takes its order up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from played_mechanism import Manner

from mooring.controllers.fencing.keys import FenceKey, MechanismKey
from mooring.fence.interface import Scope
from mooring.kube.errors import Unreachable
from mooring.kube.keys import NodeKey
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.simulation.parts.faulty_transport import Fault, request
from mooring.volumes.names import FENCE_EVIDENCE
from mooring.volumes.statements import evidence_of

KINDS = (Node, FencePolicy, FenceMechanism, NodeFence)


async def another(stage: Any) -> Any:
    controller = stage.controller()
    await stage.fill(controller, *KINDS)
    return controller


async def lost(stage: Any, scope: Scope) -> str:
    """The name of the fence of a node that does not answer; nothing was ordered yet."""
    stage.bmc.scope = scope
    await stage.attachment(await stage.node("a"))
    await stage.node("b")
    await stage.mechanism()
    await stage.policy("bmc")
    await (await another(stage)).reconcile(MechanismKey("bmc"))
    await stage.silent("a")
    await (await another(stage)).reconcile(NodeKey("a"))
    return (await stage.fence("a")).name


async def answers_late(stage: Any, name: str, outcome: str) -> Fault:
    """A controller has ordered; the answer that it writes is on its way."""
    late = stage.wire.late(request("PATCH", f"nodefences/{name}/status", f'"outcome":"{outcome}"'))
    with pytest.raises(Unreachable):
        await (await another(stage)).reconcile(FenceKey(name))
    return late


@pytest.mark.parametrize("scope", [Scope.POWER, Scope.STORAGE])
def test_that_an_order_has_not_struck_is_not_written_when_it_was_given_again_and_has(
    fencing: Any, scope: Scope
):
    """What a storage has shut out would stay so for good: of that order nothing is asked any more."""

    async def story(stage: Any):
        name = await lost(stage, scope)
        stage.bmc.manner = Manner.REFUSES
        late = await answers_late(stage, name, "NotFenced")
        stage.bmc.manner, stage.bmc.takes_s = Manner.HONEST, 5.0
        successor = asyncio.create_task((await another(stage)).reconcile(FenceKey(name)))
        await asyncio.sleep(7.0)
        assert stage.machines.off == {"a"}, "it has struck, and has not answered"
        await late.deliver()
        await successor
        status = (await stage.fence("a")).status
        assert [each.outcome for each in status.attempts] == ["Fenced"]
        assert status.proof == status.attempts[0].token

    fencing(story)


def test_a_fence_is_not_in_force_by_an_answer_that_comes_when_the_node_was_let_in(fencing: Any):
    """What the node has would be released, and it may write still."""

    async def story(stage: Any):
        name = await lost(stage, Scope.STORAGE)
        late = await answers_late(stage, name, "Fenced")
        await stage.report("a")
        successor = asyncio.create_task((await another(stage)).reconcile(FenceKey(name)))
        await asyncio.sleep(0.8)  # the mechanism has looked, and is to let it in
        assert stage.machines.off == {"a"}
        await late.deliver()
        await successor
        assert stage.machines.off == set()
        status = (await stage.fence("a")).status
        assert (status.proof, status.attempts[0].outcome) == ("", "Unknown")

    fencing(story)


async def released_late(stage: Any) -> tuple[str, Fault]:
    """A fence whose mechanism lied: its evidence is on its way, and its node reports in the same boot."""
    name = await lost(stage, Scope.POWER)
    stage.bmc.manner = Manner.LIES
    late = stage.wire.late(request("PATCH", "volumeattachments/va", FENCE_EVIDENCE))
    with pytest.raises(Unreachable):
        await (await another(stage)).reconcile(FenceKey(name))
    await stage.report("a")
    return name, late


def test_what_is_withdrawn_is_not_released_by_a_write_that_comes_late(fencing: Any):
    """Evidence names the boot, which runs on: it would count as soon as the node fell silent."""

    async def story(stage: Any):
        name, late = await released_late(stage)
        await (await another(stage)).reconcile(FenceKey(name))
        await late.deliver()
        record = await stage.api.get(VolumeAttachment, "va")
        assert evidence_of(record) is None
        assert (await stage.fence("a")).status.phase in ("AwaitingPerson", "Cancelled")

    fencing(story)


def test_what_is_released_is_written_on_a_record_that_has_changed_meanwhile(fencing: Any):
    async def story(stage: Any):
        name = await lost(stage, Scope.POWER)
        held = stage.wire.hold(request("PATCH", "volumeattachments/va", FENCE_EVIDENCE))
        releases = asyncio.create_task((await another(stage)).reconcile(FenceKey(name)))
        await held.arrived.wait()
        await stage.api.patch(VolumeAttachment, "va", {"metadata": {"annotations": {"changed": "since"}}})
        held.release()
        await releases
        assert evidence_of(await stage.api.get(VolumeAttachment, "va")) is not None

    fencing(story)


def test_what_a_mechanism_said_before_it_was_described_anew_is_not_written_late(fencing: Any):
    """Until the next check, hours later, no word of it would count that a machine was on."""

    async def story(stage: Any):
        await stage.node("a")
        await stage.mechanism()
        late = stage.wire.late(request("PATCH", "fencemechanisms/bmc/status"))
        with pytest.raises(Unreachable):
            await (await another(stage)).reconcile(MechanismKey("bmc"))
        await stage.api.patch(FenceMechanism, "bmc", {"spec": {"timeoutSeconds": 7}})
        await (await another(stage)).reconcile(MechanismKey("bmc"))
        await late.deliver()
        record = await stage.api.get(FenceMechanism, "bmc")
        assert record.status.observed_generation == record.metadata.generation

    fencing(story)
