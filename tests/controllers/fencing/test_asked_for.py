"""A Node's annotation asks for a fence of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crashes import ended_at
from fencing_stage import FencingStage
from hypothesis import given
from hypothesis import strategies as st

from mooring.controllers.fencing.asking import LONGEST, asked_fence
from mooring.controllers.fencing.names import REQUEST
from mooring.kube.errors import AlreadyExists
from mooring.kube.keys import NodeKey
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FencePolicy, NodeFence
from mooring.kube.objects.meta import ObjectMeta
from mooring.volumes.node_fences import Phase


async def asked(stage: FencingStage, why: str = "smoke") -> None:
    node = await stage.api.get(Node, "a")
    await stage.api.revise(node, {"metadata": {"annotations": {REQUEST: why}}}, any_version=True)


async def fences(stage: FencingStage) -> list[NodeFence]:
    return (await stage.api.list(NodeFence)).items


async def is_taken_up(stage: FencingStage) -> bool:
    return REQUEST not in (await stage.api.get(Node, "a")).metadata.annotations


async def covered(stage: FencingStage, **policy: Any) -> None:
    await stage.node("a")
    await stage.node("b")
    await stage.mechanism()
    await stage.policy("bmc", **policy)


def test_a_node_that_answers_is_fenced_because_its_annotation_asks_for_it(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await asked(stage)
            fence = await stage.until_phase("a", Phase.FENCED)
        assert fence.spec.reason == "smoke"
        assert REQUEST in fence.spec.requested_by
        assert stage.machines.off == {"a"}
        assert await is_taken_up(stage)

    fencing(story)


def test_an_annotation_asks_for_one_fence_and_is_taken_off_where_one_is_under_way(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await asked(stage)
            await stage.until_phase("a", Phase.FENCED)
            await asked(stage, "again")
            await stage.until(lambda: is_taken_up(stage))
            await asyncio.sleep(5)
        assert [each.spec.reason for each in await fences(stage)] == ["smoke"]

    fencing(story)


def test_nothing_is_made_of_what_the_annotation_of_a_node_that_is_gone_had_asked_for(fencing: Any):
    """32003056 of `fencing.yaml`: the controller's watch was late."""

    async def story(stage: FencingStage) -> None:
        await covered(stage)
        await asked(stage)
        late = stage.controller()
        await stage.fill(late, Node, FencePolicy, NodeFence)
        await stage.api.delete(Node, "a")
        await late.reconcile(NodeKey("a"))
        assert await fences(stage) == []

    fencing(story)


def test_a_policys_pause_holds_what_an_annotation_asks_for(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage, paused="maintenance")
        async with stage.running():
            await asyncio.sleep(5)
            await asked(stage)
            await stage.until(lambda: is_taken_up(stage))
            await asyncio.sleep(30)
        assert [each.status.reason for each in await fences(stage)] == ["Paused"]
        assert not stage.machines.off

    fencing(story)


def test_where_no_policy_covers_the_node_the_fence_says_so_and_nothing_is_ordered(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await stage.node("a")
        await stage.mechanism()
        async with stage.running():
            await asyncio.sleep(5)
            await asked(stage)
            await stage.until(lambda: is_taken_up(stage))
            await asyncio.sleep(30)
        (fence,) = await fences(stage)
        assert fence.status.reason == "NoLadder"
        assert not stage.machines.off

    fencing(story)


def test_a_controller_that_dies_at_any_await_has_its_successor_make_one_fence_of_one_request(fencing: Any):
    async def crashed_at(stage: FencingStage, steps: int) -> bool:
        await covered(stage, paused="maintenance")
        await asked(stage)
        controller = stage.controller()
        await stage.fill(controller, Node, FencePolicy, NodeFence)
        ended = await ended_at(controller.reconcile(NodeKey("a")), steps)
        async with stage.running():
            await stage.until(lambda: is_taken_up(stage))
            await asyncio.sleep(20)
        assert len(await fences(stage)) == 1
        return ended

    steps = 0
    while fencing(lambda stage, steps=steps: crashed_at(stage, steps)):
        steps += 1
    assert steps >= 2


def test_a_fence_that_a_request_without_an_answer_has_made_is_found_and_no_second_one_is_made(fencing: Any):
    """5000406 of `storage-shuts-nodes-out.yaml`: it was made a minute later, when the second one was over."""

    async def story(stage: FencingStage) -> None:
        await covered(stage, paused="maintenance")
        await asked(stage)
        controller = stage.controller()
        await stage.fill(controller, Node, FencePolicy)
        node = await stage.api.get(Node, "a")
        await stage.api.create(NodeFence, asked_fence(node, ()))  # its caches do not show it
        with pytest.raises(AlreadyExists):
            await controller.reconcile(NodeKey("a"))
        await controller.reconcile(NodeKey("a"))
        assert len(await fences(stage)) == 1
        assert await is_taken_up(stage)

    fencing(story)


def test_the_next_request_has_another_name():
    node = Node(metadata=ObjectMeta(name="a", uid="u", annotations={REQUEST: "why"}))
    first = asked_fence(node, ())["metadata"]["name"]
    assert asked_fence(node, ())["metadata"]["name"] == first
    assert asked_fence(node, {first})["metadata"]["name"] != first


@given(st.text(max_size=3000))
def test_whatever_the_annotation_says_is_one_bounded_line(said: str):
    node = Node(metadata=ObjectMeta(name="a", uid="u", annotations={REQUEST: said}))
    reason = asked_fence(node, ())["spec"]["reason"]
    assert 0 < len(reason) <= LONGEST
    assert len(reason.splitlines()) == 1
