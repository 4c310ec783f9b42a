"""Another machine takes a node's name: what is shown of the one is nothing about the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fencing_stage import FencingStage
from played_mechanism import Manner

from mooring.fence.interface import Scope
from mooring.kube.objects import Event, Node, VolumeAttachment
from mooring.kube.objects.fencing import NodeFence
from mooring.volumes.machines import machine_annotation
from mooring.volumes.names import NODE_MACHINE
from mooring.volumes.node_fences import Phase
from mooring.volumes.out_of_service import taint_of
from mooring.volumes.statements import evidence_of

FORMER, PRESENT = "former", "present"


async def lost(stage: FencingStage) -> Node:
    """A node with a volume, whose machine is known by name, and which then is silent."""
    await stage.node("a")
    node = await stage.report("a", machine=FORMER)
    await stage.node("b")
    await stage.mechanism()
    await stage.policy("bmc")
    record = await stage.attachment(node)
    await stage.api.revise(record, {"metadata": {"annotations": machine_annotation(node)}})
    return node


async def taken(stage: FencingStage, how: str = "in place") -> None:
    """The other machine registers."""
    if how == "registered anew":
        node = await stage.api.get(Node, "a")
        await stage.api.revise(node, {"metadata": {"finalizers": None}}, any_version=True)
        await stage.api.delete(Node, "a")
        info = {"nodeInfo": {"bootID": "boot-2", "systemUUID": PRESENT}}
        await stage.api.create(Node, {"metadata": {"name": "a"}, "status": info})
    await stage.report("a", "boot-2", machine=PRESENT)


async def evidence(stage: FencingStage, name: str = "va") -> Any:
    return evidence_of(await stage.api.get(VolumeAttachment, name))


@pytest.mark.parametrize("how", ["in place", "registered anew"])
def test_a_fence_that_is_under_way_ends_and_says_that_another_machine_has_the_name(fencing: Any, how: str):
    async def story(stage: FencingStage) -> None:
        await lost(stage)
        stage.bmc.manner = Manner.REFUSES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", Phase.AWAITING_PERSON)
            stage.bmc.manner = Manner.HONEST
            await taken(stage, how)
            fence = await stage.until_phase("a", Phase.UNFENCED)
            assert fence.status.reason == "AnotherMachine"
            assert FORMER in fence.status.message

            async def told() -> bool:
                said = (await stage.api.list(Event)).items
                return any(
                    (each.involved_object.kind, each.reason) == ("NodeFence", "AnotherMachine")
                    for each in said
                )

            await stage.until(told)
            await asyncio.sleep(700)
        assert await evidence(stage) is None
        assert not stage.machines.off

    fencing(story)


def test_the_taint_of_a_fence_goes_with_the_name(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await lost(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")

            async def released() -> bool:
                return taint_of(await stage.api.get(Node, "a")) is not None

            await stage.until(released)
            await taken(stage)
            await stage.until_phase("a", Phase.UNFENCED)
        assert taint_of(await stage.api.get(Node, "a")) is None

    fencing(story)


def test_a_fence_of_the_present_machine_says_nothing_of_what_the_former_one_has(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await lost(stage)
        await taken(stage)
        mine = await stage.attachment(await stage.api.get(Node, "a"), "mine")
        await stage.api.revise(mine, {"metadata": {"annotations": {NODE_MACHINE: f"{PRESENT} "}}})
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a", "boot-2")
            await stage.until_phase("a", Phase.FENCED)
            await stage.until(lambda: evidence(stage, "mine"))
        assert await evidence(stage) is None

    fencing(story)


def test_a_machine_that_is_shut_out_stays_so_when_another_one_takes_its_name(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await lost(stage)
        stage.bmc.scope = Scope.NETWORK
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", Phase.FENCED)
            await taken(stage)
            await asyncio.sleep(300)
            fence = await stage.fence("a")
            assert fence is not None
            assert (fence.status.phase, fence.status.reason) == (Phase.FENCED, "AnotherMachine")
            assert stage.machines.off == {"a"}
            await stage.api.patch(NodeFence, fence.name, {"spec": {"unfence": True}})
            await stage.until_phase("a", Phase.UNFENCED)
        assert not stage.machines.off

    fencing(story)


def test_no_order_is_given_about_a_boot_id_that_a_clone_shows(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await lost(stage)
        stage.bmc.manner = Manner.REFUSES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", Phase.AWAITING_PERSON)
            given = len(stage.bmc.given)
            await stage.report("a", "boot-1", "Unknown", machine=PRESENT)
            fence = await stage.until_phase("a", Phase.UNFENCED)
        assert fence.status.reason == "AnotherMachine"
        assert len(stage.bmc.given) == given

    fencing(story)
