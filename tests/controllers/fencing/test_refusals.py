"""What the API server refuses of one object, or of one step, keeps nothing else of a fence waiting."""

from __future__ import annotations

import asyncio
from typing import Any

from refusals import refuse
from storage_stage import StorageStage

from mooring.kube.objects import Node, VolumeAttachment
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.out_of_service import taint_of
from mooring.volumes.statements import evidence_of


async def evidence(stage: Any, name: str) -> Any:
    return evidence_of(await stage.api.get(VolumeAttachment, name))


async def tainted(stage: Any, name: str) -> bool:
    return taint_of(await stage.api.get(Node, name)) is not None


async def lost_with_two_volumes(stage: Any) -> None:
    """Node a has two volumes, and its mechanism can fence it."""
    node = await stage.node("a")
    await stage.node("b")
    for name in ("va-1", "va-2"):
        await stage.attachment(node, name)
    await stage.mechanism()
    await stage.policy("bmc")


def test_a_record_that_may_not_be_written_keeps_neither_another_nor_the_taint(fencing: Any):
    async def story(stage: Any):
        await lost_with_two_volumes(stage)
        refuse(stage, request("PATCH", "volumeattachments/va-1"))
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            await stage.until(lambda: tainted(stage, "a"))
            assert await evidence(stage, "va-2") is not None

    fencing(story)


def test_a_record_that_may_be_written_again_gets_its_evidence(fencing: Any):
    async def story(stage: Any):
        await lost_with_two_volumes(stage)
        refusals = refuse(stage, request("PATCH", "volumeattachments/va-1"))
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: evidence(stage, "va-2"))
            refusals.end()
            await stage.until(lambda: evidence(stage, "va-1"))

    fencing(story)


def test_what_cannot_be_taken_back_of_one_record_is_taken_back_of_the_others(fencing: Any):
    async def story(stage: Any):
        await lost_with_two_volumes(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: tainted(stage, "a"))
            refuse(stage, request("PATCH", "volumeattachments/va-1"))
            await stage.report("a", "boot-2")

            async def taken_back() -> bool:
                return await evidence(stage, "va-2") is None

            await stage.until(taken_back)

    fencing(story)


def test_a_lost_node_whose_deletion_may_not_be_held_is_fenced(fencing: Any):
    async def story(stage: Any):
        await lost_with_two_volumes(stage)
        refuse(stage, request("PATCH", "nodes/a", "finalizers"))
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            assert stage.machines.off == {"a"}

    fencing(story)


def test_a_record_that_may_not_be_written_keeps_no_pod_of_a_node_that_its_storage_shuts_out(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.opt_in()
        for lun, name in enumerate(("guarded", "shut"), start=1):
            await stage.lun(node, name, lun=lun)
            await stage.claim(name)
        await stage.pod("shut")
        refuse(stage, request("PATCH", "volumeattachments/guarded"))
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_gone()
            assert await stage.released() == {"shut"}

    storage(story)
