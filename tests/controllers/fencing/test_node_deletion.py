"""A Node that a FencePolicy covers is not gone before nothing exclusive is left on it."""

from __future__ import annotations

from typing import Any

import pytest
from crashes import ended_at
from fencing_stage import FencingStage

from mooring.controllers.fencing.holding import hold
from mooring.controllers.fencing.names import NODE_FINALIZER
from mooring.kube.keys import NodeKey
from mooring.kube.objects import Event, Node, Pod, VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.volumes.names import NODE_UID
from mooring.volumes.node_fences import Phase
from mooring.volumes.statements import evidence_of

KINDS = (Node, FencePolicy, FenceMechanism, NodeFence)
OWNER = {"apiVersion": "apps/v1", "name": "web", "uid": "set", "controller": True}


async def held(stage: FencingStage, name: str = "a") -> Node:
    """The Node, once its deletion is held."""

    async def with_finalizer() -> Node | None:
        node = await stage.api.get(Node, name)
        return node if NODE_FINALIZER in node.metadata.finalizers else None

    return await stage.until(with_finalizer)


async def gone(stage: FencingStage, name: str = "a") -> None:
    async def absent() -> bool:
        return await stage.api.find(Node, name) is None

    await stage.until(absent)


async def waits(stage: FencingStage, name: str = "a", *, says: str = "") -> str:
    """What is said, with these words, of the deletion that waits."""

    async def told() -> str | None:
        events = (await stage.api.list(Event)).items
        mine = (each for each in events if each.involved_object.name == name)
        said = (each.message or "" for each in mine if each.reason == "NodeDeletionWaits")
        return next((each for each in said if says in each), None)

    return await stage.until(told)


async def covered(stage: FencingStage, **policy: Any) -> Node:
    node = await stage.node("a")
    await stage.node("b")
    await stage.mechanism()
    await stage.policy("bmc", **policy)
    return node


async def pod(stage: FencingStage, kind: str = "StatefulSet") -> Pod:
    body = {
        "metadata": {"name": "web-0", "ownerReferences": [{**OWNER, "kind": kind}]},
        "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "shell"}]},
    }
    return await stage.api.create(Pod, body, "default")


async def remove(stage: FencingStage, found: Pod) -> None:
    await stage.api.delete(Pod, found.name, found.namespace, grace_period_seconds=0)


def test_a_node_of_a_policy_is_held_and_one_of_none_is_not(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await stage.node("a", fencing="yes")
        await stage.node("b")
        await stage.mechanism()
        await stage.policy("bmc", nodeSelector={"matchLabels": {"fencing": "yes"}})
        async with stage.running():
            await held(stage)
            assert (await stage.api.get(Node, "b")).metadata.finalizers == ()

    fencing(story)


@pytest.mark.parametrize("how", ["policy deleted", "label taken away"])
def test_a_node_is_let_go_when_no_policy_covers_it_any_more(fencing: Any, how: str):
    async def story(stage: FencingStage) -> None:
        node = await stage.node("a", fencing="yes")
        await stage.api.revise(node, {"metadata": {"finalizers": ["another/one"]}})
        await stage.mechanism()
        await stage.policy("bmc", nodeSelector={"matchLabels": {"fencing": "yes"}})
        async with stage.running():
            await held(stage)
            if how == "policy deleted":
                await stage.api.delete(FencePolicy, "policy")
            else:
                await stage.api.patch(Node, "a", {"metadata": {"labels": {"fencing": None}}})

            async def without() -> bool:
                return (await stage.api.get(Node, "a")).metadata.finalizers == ("another/one",)

            await stage.until(without)

    fencing(story)


def test_a_node_with_nothing_exclusive_goes_at_once(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        await pod(stage, kind="ReplicaSet")
        async with stage.running():
            await held(stage)
            await stage.api.delete(Node, "a")
            await gone(stage)
            assert await stage.fence("a") is None

    fencing(story)


def test_a_node_that_is_lost_and_deleted_goes_after_it_was_fenced_and_its_volumes_detached(fencing: Any):
    async def story(stage: FencingStage) -> None:
        node = await covered(stage)
        await stage.attachment(node)
        async with stage.running():
            await held(stage)
            await stage.api.delete(Node, "a")
            await stage.silent("a")
            fence = await stage.until_phase("a", Phase.FENCED)
            assert fence.spec.node_uid == node.uid
            assert stage.machines.off == {"a"}

            async def released() -> bool:
                return evidence_of(await stage.api.get(VolumeAttachment, "va")) is not None

            await stage.until(released)
            assert (await stage.api.get(Node, "a")).deleting, "its volume is still attached"
            await stage.api.delete(VolumeAttachment, "va")
            await gone(stage)

    fencing(story)


def test_a_node_that_answers_waits_for_its_drain_and_is_not_fenced(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        found = await pod(stage)
        async with stage.running():
            await held(stage)
            await stage.api.delete(Node, "a")
            assert "pod default/web-0" in await waits(stage, says="kubectl drain a")
            assert await stage.fence("a") is None
            await remove(stage, found)
            await gone(stage)

    fencing(story)


def test_a_node_whose_deletion_waits_takes_no_new_pods_also_when_it_is_uncordoned(fencing: Any):
    async def story(stage: FencingStage) -> None:
        async def cordoned() -> bool:
            return (await stage.api.get(Node, "a")).spec.unschedulable

        await covered(stage)
        await pod(stage)
        async with stage.running():
            await held(stage)
            assert not await cordoned()
            await stage.api.delete(Node, "a")
            await stage.until(cordoned)
            await stage.api.patch(Node, "a", {"spec": {"unschedulable": None}})
            await stage.until(cordoned)

    fencing(story)


@pytest.mark.parametrize("why", ["paused", "overlapping"])
def test_a_policy_that_fences_nothing_now_holds_the_deletion_too(fencing: Any, why: str):
    async def story(stage: FencingStage) -> None:
        node = await stage.node("a")
        await stage.mechanism()
        await stage.policy("bmc", paused="a trial" if why == "paused" else "")
        if why == "overlapping":
            await stage.policy("bmc", name="another")
        await stage.attachment(node)
        async with stage.running():
            await held(stage)
            await stage.api.delete(Node, "a")
            await stage.silent("a")
            await waits(stage, says="mooring fence confirm a")
            assert (await stage.api.get(Node, "a")).deleting
            assert stage.machines.off == set()

    fencing(story)


def test_what_another_registration_of_the_name_has_does_not_hold_it(fencing: Any):
    async def story(stage: FencingStage) -> None:
        node = await covered(stage)
        record = await stage.attachment(node)
        await stage.api.revise(record, {"metadata": {"annotations": {NODE_UID: "another"}}})
        async with stage.running():
            await held(stage)
            await stage.api.delete(Node, "a")
            await gone(stage)

    fencing(story)


def test_a_crash_at_any_moment_lets_no_node_go_early_and_holds_none_for_ever(fencing: Any):
    async def crashed_at(stage: FencingStage, steps: int) -> bool:
        await covered(stage)
        found = await pod(stage)
        ended = False
        for deleted in (False, True):
            if deleted:
                await stage.api.delete(Node, "a")
            controller = stage.controller()
            await stage.fill(controller, *KINDS)
            ended = await ended_at(controller.reconcile(NodeKey("a")), steps) or ended
            async with stage.running():
                await held(stage)
        assert (await stage.api.get(Node, "a")).deleting
        await remove(stage, found)
        async with stage.running():
            await gone(stage)
        return ended

    steps = 0
    while fencing(lambda stage, steps=steps: crashed_at(stage, steps)):
        steps += 1
    assert steps >= 3


def test_a_finalizer_that_a_late_cache_does_not_show_is_not_written_again(fencing: Any):
    async def story(stage: FencingStage):
        node = await stage.node("a")
        first = await hold(stage.api, node, held=True)
        assert first is not None
        again = await hold(stage.api, node, held=True)
        assert again is not None
        assert again.metadata.resource_version == first.metadata.resource_version

    fencing(story)
