"""A fencing controller that dies at any await leaves what its successor finishes: one order for each attempt,
nothing released before it is shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from crashes import ended_at
from played_mechanism import Manner

from mooring.controllers.fencing.keys import FenceKey
from mooring.fence.interface import Scope
from mooring.kube.keys import NodeKey
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.volumes.attachment_lock import Lock, annotation
from mooring.volumes.out_of_service import taint_of
from mooring.volumes.statements import evidence_of

KINDS = (Node, FencePolicy, FenceMechanism, NodeFence)


async def lost(stage: Any) -> None:
    """A node that does not answer, whose mechanism had seen it on."""
    node = await stage.node("a")
    await stage.node("b")
    await stage.attachment(node)
    await stage.mechanism()
    await stage.policy("bmc")
    controller = stage.controller()
    await stage.fill(controller, *KINDS)
    await controller.reconcile(controller._of_mechanism(await stage.api.get(FenceMechanism, "bmc"))[0])  # pyright: ignore[reportPrivateUsage]
    await stage.silent("a")


async def begun(stage: Any) -> str:
    """The name of a fence that was made, and has done nothing yet."""
    controller = stage.controller()
    await stage.fill(controller, *KINDS)
    await controller.reconcile(NodeKey("a"))
    fence = await stage.fence("a")
    assert fence is not None
    return fence.name


async def died(stage: Any, key: Any, steps: int) -> bool:
    """Whether a controller came to its end at its await number `steps` of the work on a key."""
    controller = stage.controller()
    await stage.fill(controller, *KINDS)
    return await ended_at(controller.reconcile(key), steps)


async def released(stage: Any) -> bool:
    record = await stage.api.get(VolumeAttachment, "va")
    return evidence_of(record) is not None


async def finished(stage: Any) -> NodeFence:
    """The fence, once what its node had is released."""

    async def done() -> NodeFence | None:
        fence = await stage.fence("a")
        return fence if fence is not None and fence.status.released_at else None

    async with stage.running():
        return await stage.until(done)


@pytest.mark.parametrize("manner", [Manner.HONEST, Manner.RAISES])
def test_a_successor_finishes_what_was_begun(fencing: Any, manner: Manner):
    """HONEST, and a mechanism that does it and fails: the successor of a crash repeats the order."""

    async def crashed_at(stage: Any, steps: int) -> bool:
        await lost(stage)
        name = await begun(stage)
        stage.bmc.manner = manner
        crashed = await died(stage, FenceKey(name), steps)
        if await released(stage):
            assert stage.machines.off == {"a"}
        stage.bmc.manner = Manner.HONEST
        fence = await finished(stage)
        assert stage.machines.off == {"a"}
        assert await released(stage)
        assert taint_of(await stage.api.get(Node, "a")) is not None
        tokens = [each.token for each in fence.status.attempts]
        assert len(tokens) == len(set(tokens))
        assert {token for _, token in stage.machines.orders} <= set(tokens), "an order that was not written"
        return crashed

    steps = 0
    while fencing(lambda stage: crashed_at(stage, steps)):  # noqa: B023 - it is played at once
        steps += 1
    assert steps > 5


def test_the_fence_itself_is_begun_once(fencing: Any):
    async def crashed_at(stage: Any, steps: int) -> bool:
        await lost(stage)
        crashed = await died(stage, NodeKey("a"), steps)
        await finished(stage)
        assert len((await stage.api.list(NodeFence)).items) == 1
        return crashed

    steps = 0
    while fencing(lambda stage: crashed_at(stage, steps)):  # noqa: B023 - it is played at once
        steps += 1
    assert steps > 1


def test_a_node_is_free_whatever_await_its_controller_dies_at_when_it_comes_back(fencing: Any):
    async def crashed_at(stage: Any, steps: int) -> bool:
        await lost(stage)
        name = await begun(stage)
        await finished(stage)
        await stage.report("a", "boot-2")
        crashed = await died(stage, FenceKey(name), steps)

        async def free() -> bool:
            fence = await stage.fence("a")
            return fence.status.phase == "Unfenced" and not fence.metadata.finalizers

        async with stage.running():
            await stage.until(free)
        assert taint_of(await stage.api.get(Node, "a")) is None
        return crashed

    steps = 0
    while fencing(lambda stage: crashed_at(stage, steps)):  # noqa: B023 - it is played at once
        steps += 1
    assert steps > 2


def test_a_release_whose_controller_dies_is_withdrawn_whole(fencing: Any):
    async def crashed_at(stage: Any, steps: int) -> bool:
        await lost(stage)
        name = await begun(stage)
        stage.bmc.manner = Manner.LIES
        await finished(stage)
        await stage.report("a")
        crashed = await died(stage, FenceKey(name), steps)
        async with stage.running():
            await stage.until_phase("a", "Cancelled")
        assert not await released(stage)
        assert taint_of(await stage.api.get(Node, "a")) is None
        return crashed

    steps = 0
    while fencing(lambda stage: crashed_at(stage, steps)):  # noqa: B023 - it is played at once
        steps += 1
    assert steps > 3


async def ordered(stage: Any, manner: Manner) -> str:
    """The name of a fence whose controller dies while the mechanism has its order."""
    await lost(stage)
    name, stage.bmc.manner = await begun(stage), manner
    async with stage.running():
        await stage.until(lambda: _has_it(stage, struck=manner is Manner.LOST_ANSWER))
    stage.bmc.manner = Manner.HONEST
    return name


async def _has_it(stage: Any, *, struck: bool) -> bool:
    return bool(stage.bmc.given) and bool(stage.machines.off) is struck


def test_an_order_that_has_not_struck_is_not_given_again_to_a_node_that_answers_by_then(fencing: Any):
    """9000125 of `fencing-by-storage.yaml`."""

    async def story(stage: Any):
        await ordered(stage, Manner.SILENT)
        await stage.report("a")
        async with stage.running():
            fence = await stage.until_phase("a", "Cancelled")
        assert fence.status.attempts[-1].reason == "NotHeard"
        assert (len(stage.bmc.given), stage.machines.off) == (1, set())

    fencing(story)


@contextlib.asynccontextmanager
async def shut_out_unanswered(stage: Any) -> AsyncIterator[None]:
    """The controller runs, and its storage has shut the lost node out, and has not answered; from then on it
    does."""
    stage.bmc.scope, stage.bmc.manner = Scope.STORAGE, Manner.RAISES
    async with stage.running():
        await stage.until_phase("a", "AwaitingPerson")
        assert stage.machines.off == {"a"}
        stage.bmc.manner = Manner.HONEST
        yield


def test_what_an_order_of_unknown_outcome_has_shut_out_is_let_in_when_it_answers_in_another_boot(
    fencing: Any,
):
    """A storage that has carried it out, and has not answered, would shut the node out for good."""

    async def story(stage: Any):
        await lost(stage)
        async with shut_out_unanswered(stage):
            await stage.report("a", "boot-2")
            fence = await stage.until_phase("a", "Unfenced")
        assert stage.machines.off == set()
        assert {each.reason for each in fence.status.attempts} == {"NotHeard"}

    fencing(story)


def test_an_order_that_a_dead_controller_gave_may_have_struck_though_its_successor_can_give_none(
    fencing: Any,
):
    """A Secret that cannot be read for a moment, say: that nothing was ordered now says nothing of before."""

    async def story(stage: Any):
        stage.bmc.scope = Scope.STORAGE
        await ordered(stage, Manner.LOST_ANSWER)
        stage.bmc.wrong = ["its Secret cannot be read"]
        async with stage.running():
            await stage.until_phase("a", "AwaitingPerson")
            stage.bmc.wrong = []
            await stage.report("a")
            await stage.until_phase("a", "Cancelled")
        assert stage.machines.off == set()

    fencing(story)


def test_in_the_same_boot_it_is_let_in_where_nothing_was_released_on_it(fencing: Any):
    async def story(stage: Any):
        await lost(stage)
        async with shut_out_unanswered(stage):
            await stage.report("a")
            await stage.until_phase("a", "Cancelled")
        assert stage.machines.off == set()

    fencing(story)


def test_what_a_second_source_says_to_be_let_in_is_not_ordered_off_once_more_when_it_answers(fencing: Any):
    """10600131 of `fencing-by-storage.yaml`: the device was about another node, and was ordered again."""

    async def story(stage: Any):
        stage.bmc.scope = Scope.STORAGE
        await lost(stage)
        await stage.mechanism("strip", "other")
        ladder = [{"mechanism": "bmc", "confirmWith": ["strip"], "retries": 0}]
        await stage.api.patch(FencePolicy, "policy", {"spec": {"ladder": ladder}})
        stage.bmc.manner = Manner.LIES
        async with stage.running():
            waits = await stage.until_phase("a", "AwaitingPerson")
            assert waits.status.attempts[-1].reason == "Contradicted"
            await stage.report("a")
            await stage.until_phase("a", "Cancelled")
        assert len(stage.bmc.given) == 1

    fencing(story)


def test_one_from_which_a_volume_was_taken_by_force_in_that_boot_is_not_let_in_at_once(fencing: Any):
    """On a person's word, say, while it did not answer: another node may have it."""

    async def story(stage: Any):
        await lost(stage)
        node = await stage.api.get(Node, "a")
        lock = Lock(epoch=1, node="a").released("a", node.status.node_info.boot_id, advance=True)
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        metadata = {"name": "pv", "annotations": annotation(lock)}
        await stage.api.create(PersistentVolume, {"metadata": metadata, "spec": spec})
        async with shut_out_unanswered(stage):
            await stage.report("a")
            await stage.until_phase("a", "Fenced")
        assert stage.machines.off == {"a"}

    fencing(story)


def test_where_something_may_have_been_released_it_is_in_force_first(fencing: Any):
    """Else what the node has not written yet would be written to a volume that another node has by now."""

    async def story(stage: Any):
        stage.bmc.scope = Scope.STORAGE
        await lost(stage)
        async with stage.running():
            await stage.until_phase("a", "Fenced")
            stage.bmc.manner = Manner.RAISES
            stage.machines.off.clear()  # the storage has let it in by itself
            await stage.until_phase("a", "AwaitingPerson", 1000)
            stage.bmc.manner = Manner.HONEST
            await stage.report("a")
            await stage.until_phase("a", "Fenced")
            await asyncio.sleep(100)
        assert stage.machines.off == {"a"}

    fencing(story)


def test_an_order_that_has_struck_is_given_again_for_its_answer_although_its_fence_is_taken_back(
    fencing: Any,
):
    """So what it has cut off is in force, and is lifted by the rules of a fence."""

    async def story(stage: Any):
        name = await ordered(stage, Manner.LOST_ANSWER)
        await stage.api.patch(NodeFence, name, {"spec": {"unfence": True}})
        async with stage.running():
            await stage.until(lambda: _is_on(stage))
        assert len({each.token for each in stage.bmc.given}) == 1

    fencing(story)


async def _is_on(stage: Any) -> bool:
    return not stage.machines.off


def test_a_node_that_answers_is_not_ordered_off_by_a_controller_that_does_not_know_it_yet(fencing: Any):
    async def story(stage: Any):
        await lost(stage)
        name = await begun(stage)
        late = stage.controller()
        await stage.fill(late, *KINDS)
        await stage.report("a")
        await late.reconcile(FenceKey(name))
        assert not stage.machines.orders
        assert (await stage.fence("a")).status.phase != "Fenced"

    fencing(story)


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_what_an_order_of_long_ago_has_shut_out_is_let_in_as_well(fencing: Any, boot: str):
    """A machine that is repaired after hours: what is known of the order is what its storage says now."""

    async def story(stage: Any):
        await lost(stage)
        async with shut_out_unanswered(stage):
            await stage.api.patch(FencePolicy, "policy", {"spec": {"ladder": [{"mechanism": "gone"}]}})
            await asyncio.sleep(7200)
            await stage.report("a", boot)
            await stage.until_phase("a", "Cancelled" if boot == "boot-1" else "Unfenced")
        assert stage.machines.off == set()

    fencing(story)
