"""A controller that sees Nodes and fences, and whose watches of FenceMechanisms and FencePolicies stand
still: what a person has written there counts from when it is written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.controllers.fencing.test_meanwhile import lost

from mooring.controllers.fencing.keys import FenceKey
from mooring.kube.errors import Conflict
from mooring.kube.objects import VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy


async def outlet(stage: Any, number: str, name: str = "bmc") -> None:
    """The node a is at that outlet."""
    nodes = {"spec": {"nodes": {"a": {"outlet": number}}}}
    await stage.api.patch(FenceMechanism, name, nodes)


def test_a_machine_is_struck_by_the_present_description_of_its_mechanism(fencing: Any):
    """The outlet that the node had before is another machine's by now, which would lose its power."""

    async def story(stage: Any) -> None:
        controller, name = await lost(stage)
        await outlet(stage, "8")
        await controller.reconcile(FenceKey(name))
        assert [each.parameters.get("outlet") for each in stage.bmc.given] == ["8"]
        assert (await stage.fence("a")).status.phase == "Fenced"

    fencing(story)


def test_a_second_source_is_asked_by_its_present_description(fencing: Any):
    async def story(stage: Any) -> None:
        await stage.mechanism("strip", "other")
        asked = list[Any]()
        look = stage.strip.look

        async def noted(order: Any) -> Any:
            asked.append(order.parameters.get("outlet"))
            return await look(order)

        stage.strip.look = noted
        controller, name = await lost(stage)
        ladder = {"spec": {"ladder": [{"mechanism": "bmc", "confirmWith": ["strip"]}]}}
        controller.cache(FencePolicy).accept(await stage.api.patch(FencePolicy, "policy", ladder))
        await outlet(stage, "8", "strip")
        await controller.reconcile(FenceKey(name))
        assert asked == ["8"]

    fencing(story)


def test_a_machine_is_let_in_by_the_present_description_of_its_mechanism(fencing: Any):
    async def story(stage: Any) -> None:
        asked = list[Any]()
        unfence = stage.bmc.unfence

        async def noted(order: Any) -> Any:
            asked.append(order.parameters.get("outlet"))
            return await unfence(order)

        stage.bmc.unfence = noted
        controller, name = await lost(stage)
        controller.cache(FencePolicy).accept(
            await stage.api.patch(FencePolicy, "policy", {"spec": {"after": "PowerOn"}})
        )
        await controller.reconcile(FenceKey(name))
        await stage.api.delete(VolumeAttachment, "va")
        await outlet(stage, "8")
        await asyncio.sleep(60)
        await controller.reconcile(FenceKey(name))
        assert asked == ["8"]

    fencing(story)


@pytest.mark.parametrize("change", [{"paused": "new firmware"}, {"ladder": [{"mechanism": "strip"}]}])
def test_no_order_is_given_by_a_policy_that_says_something_else_by_now(fencing: Any, change: Any):
    """People who pause it work at the machines."""

    async def story(stage: Any) -> None:
        controller, name = await lost(stage)
        await stage.api.patch(FencePolicy, "policy", {"spec": change})
        with pytest.raises(Conflict):
            await controller.reconcile(FenceKey(name))
        await controller.reconcile(FenceKey(name))
        assert stage.bmc.given == []

    fencing(story)


def test_no_order_is_given_by_a_policy_that_is_gone(fencing: Any):
    async def story(stage: Any) -> None:
        controller, name = await lost(stage)
        await stage.api.delete(FencePolicy, "policy")
        with pytest.raises(Conflict):
            await controller.reconcile(FenceKey(name))
        assert stage.bmc.given == []

    fencing(story)
