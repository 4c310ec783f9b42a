"""Each volume that a node is shut out of has a StorageFence, which says whether that holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from storage_stage import StorageStage

from mooring.controllers.fencing.volume_fences import VolumePhase
from mooring.fence.interface import Order
from mooring.kube.client import Client
from mooring.kube.errors import Invalid
from mooring.kube.objects import Event, VolumeAttachment
from mooring.kube.objects.fencing import StorageFence
from mooring.simulation.parts.faulty_transport import role
from mooring.volumes.names import FENCE_EVIDENCE


async def volumes(stage: StorageStage) -> dict[str, str]:
    """Of each volume, how far its fence is."""
    found = (await stage.api.list(StorageFence)).items
    return {each.spec.volume: each.status.phase for each in found}


async def shut_out(stage: StorageStage) -> None:
    node = await stage.lost_node()
    await stage.lun(node, "shut")
    await stage.lun(node, "elsewhere", "iqn.2026-01.dev.mooring:other")


async def until(stage: StorageStage, **wanted: str) -> None:
    async def so() -> bool:
        return await volumes(stage) == {f"pv-{name}": phase for name, phase in wanted.items()}

    await stage.until(so)


def test_it_is_there_before_the_order_is_given_and_names_what_that_covers(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        seen: list[Any] = []
        fence_of = stage.bmc.fence

        async def looked(order: Order) -> Any:
            seen.extend((await stage.api.list(StorageFence)).items)
            return await fence_of(order)

        stage.bmc.fence = looked
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            await until(stage, shut=VolumePhase.FENCED)
        (found,) = seen
        assert (found.spec.volume, found.spec.attachment, found.status.phase) == ("pv-shut", "shut", "")
        assert (found.spec.token, found.spec.node_fence) == (stage.bmc.given[0].token, fence.name)
        assert [each.uid for each in found.metadata.owner_references] == [fence.uid]

    storage(story)


def test_a_list_that_was_opened_lifts_it_with_an_event_and_the_volume_is_shut_anew(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            stage.bmc.takes_s = 20.0
            stage.machines.off.clear()
            await stage.until_released()
            await until(stage, shut=VolumePhase.FENCED)
            assert stage.machines.off == {"a"}
            await asyncio.sleep(1)
        said = (await stage.api.list(Event)).items
        assert any(
            (each.involved_object.kind, each.reason) == ("StorageFence", "FenceLifted") for each in said
        )
        assert len({order.token for order in stage.bmc.given}) == 2

    storage(story)


def test_one_that_was_lifted_is_shut_anew_although_the_storage_is_shut_again_by_then(storage: Any):
    """A controller has seen that the node was let in, and died."""

    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
        (found,) = (await stage.api.list(StorageFence)).items
        status = {"status": {"phase": VolumePhase.LIFTED}}
        await stage.api.patch(StorageFence, found.name, status, subresource="status")
        async with stage.running():

            async def anew() -> bool:
                return len({order.token for order in stage.bmc.given}) == 2

            await stage.until(anew)
            await until(stage, shut=VolumePhase.FENCED)
            await stage.until_released("shut")

    storage(story)


def test_without_it_the_volume_is_not_free_any_more(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            (found,) = (await stage.api.list(StorageFence)).items
            await stage.api.delete(StorageFence, found.name)
            await stage.until_released()

    storage(story)


def test_what_is_written_on_another_volume_by_hand_is_none_of_it(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            record = await stage.api.get(VolumeAttachment, "shut")
            copied = {FENCE_EVIDENCE: record.metadata.annotations[FENCE_EVIDENCE]}
            await stage.api.patch(VolumeAttachment, "elsewhere", {"metadata": {"annotations": copied}})
            await stage.until_released("shut")

    storage(story)


def test_it_is_over_with_the_fence_of_its_node(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            await stage.report("a", "boot-2")
            await stage.until_phase("a", "Unfenced")
            await until(stage, shut=VolumePhase.UNFENCED)

    storage(story)


def test_a_node_that_answers_in_the_boot_that_is_shut_out_is_not_let_in(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            await stage.report("a")
            await asyncio.sleep(300)
            await until(stage, shut=VolumePhase.FENCED)
        assert stage.machines.off == {"a"}

    storage(story)


def test_a_mechanism_of_power_makes_none(fencing: Any):
    async def story(stage: Any) -> None:
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
        assert (await stage.api.list(StorageFence)).items == []

    fencing(story)


def test_one_that_names_no_volume_is_refused(storage: Any):
    async def story(stage: StorageStage) -> None:
        spec = {"nodeName": "a", "volume": "pv", "attachment": "va", "nodeFence": "f", "token": "t"}
        await stage.api.create(StorageFence, {"metadata": {"name": "s"}, "spec": spec})
        del spec["volume"]
        with pytest.raises(Invalid):
            await stage.api.create(StorageFence, {"metadata": {"name": "without"}, "spec": spec})

    storage(story)


def test_one_that_another_has_made_releases_nothing_that_the_order_does_not_cover(storage: Any):
    """Also on a server that keeps no rule of CEL: its words are bounded by the order's."""

    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            (found,) = (await stage.api.list(StorageFence)).items
            spec = {
                "nodeName": "a",
                "volume": "pv-elsewhere",
                "attachment": "elsewhere",
                "nodeFence": found.spec.node_fence,
                "token": found.spec.token,
            }
            await stage.api.create(StorageFence, {"metadata": {"name": "forged"}, "spec": spec})
            await asyncio.sleep(150)
            assert await stage.released() == {"shut"}

    storage(story)
