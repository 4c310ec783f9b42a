"""What becomes known of a node while its fence is looked into, and an order is written down, counts before it
is given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from mooring.controllers.fencing.keys import FenceKey
from mooring.controllers.fencing.orders import TOO_OLD_S
from mooring.kube.errors import Conflict
from mooring.kube.keys import NodeKey
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.simulation.parts.faulty_transport import Match, request

KINDS = (Node, FencePolicy, FenceMechanism, NodeFence)


async def lost(stage: Any) -> tuple[Any, str]:
    """A controller, and its fence of a node that does not answer; nothing was ordered yet."""
    await stage.attachment(await stage.node("a"))
    await stage.node("b")
    await stage.mechanism()
    await stage.policy("bmc")
    await stage.silent("a")
    controller = stage.controller()
    await stage.fill(controller, *KINDS)
    await controller.reconcile(NodeKey("a"))
    return controller, (await stage.fence("a")).name


async def held_between(
    stage: Any, controller: Any, name: str, first: Match, then: Match
) -> tuple[asyncio.Task[None], Any]:
    """A step of the fence that has the answer to the first of these requests; and what holds the answer to
    the second one."""
    before = stage.wire.hold(first)
    step = asyncio.create_task(controller.reconcile(FenceKey(name)))
    await before.arrived.wait()
    held = stage.wire.hold(then)
    before.release()
    await held.arrived.wait()
    return step, held


def writes(what: bytes) -> Match:
    return lambda sent: sent.method == "PATCH" and "nodefences/" in sent.path and what in (sent.body or b"")


NODE_WAS_READ = request("GET", "/fencemechanisms/")
"""What is asked for next."""


@pytest.mark.parametrize("answers", [True, False])
def test_a_node_that_answers_while_the_process_stands_still_just_before_the_order_is_not_ordered_off(
    fencing: Any, answers: bool
):
    async def story(stage: Any):
        controller, name = await lost(stage)
        step, held = await held_between(stage, controller, name, writes(b"orderedAt"), NODE_WAS_READ)
        await asyncio.sleep(TOO_OLD_S + 1)
        if answers:
            await stage.report("a")
        held.release()
        with pytest.raises(Conflict) if answers else contextlib.nullcontext():
            await step
        assert bool(stage.machines.orders) is not answers

    fencing(story)


def test_a_node_that_answers_while_the_machine_sleeps_just_before_the_order_is_not_ordered_off(
    fencing: Any, asleep: Callable[[float], None]
):
    async def story(stage: Any):
        controller, name = await lost(stage)
        step, held = await held_between(stage, controller, name, writes(b"orderedAt"), NODE_WAS_READ)
        asleep(3600)
        await stage.report("a")
        held.release()
        with pytest.raises(Conflict):
            await step
        assert not stage.machines.orders

    fencing(story)


@pytest.mark.parametrize("match", [request("GET", "/pods"), writes(b"orderedAt")])
def test_a_node_that_answers_meanwhile_is_not_ordered_off_though_the_cache_knows_it_by_then(
    fencing: Any, match: Match
):
    """What is at stake is read live, and the order is written down: each answer may be seconds away."""

    async def story(stage: Any):
        controller, name = await lost(stage)
        step, held = await held_between(stage, controller, name, writes(b"target"), match)
        controller.cache(Node).accept(await stage.report("a"))
        held.release()
        await step
        assert not stage.machines.orders
        assert (await stage.fence("a")).status.phase != "Fenced"

    fencing(story)
