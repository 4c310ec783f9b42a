"""An external health check asks for fences by medik8s' contract for remedies, and is told of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crashes import ended_at
from fencing_stage import FencingStage

from mooring.controllers.fencing.remediating import key_of, told
from mooring.controllers.fencing.remediation import (
    NODE_NAME,
    REMEDIATION_FINALIZER,
    TIMED_OUT,
    Remedy,
    decide_remedy,
    fence_of,
)
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import (
    FencePolicy,
    FenceRemediation,
    FenceRemediationSpec,
    FenceRemediationStatus,
    NodeFence,
    NodeFenceSpec,
    NodeFenceStatus,
)
from mooring.kube.objects.meta import ObjectMeta
from mooring.volumes.node_fences import Phase

NAMESPACE = "default"
KINDS = (Node, FencePolicy, NodeFence, FenceRemediation)


async def request(stage: FencingStage, name: str = "a", **annotations: str) -> FenceRemediation:
    """As a health check makes it."""
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"reason": "unhealthy for 300 s"}}
    return await stage.api.create(FenceRemediation, body, NAMESPACE)


async def said(stage: FencingStage, succeeded: str, name: str = "a") -> FenceRemediation:
    """The request, once its condition Succeeded has that status."""

    async def reached() -> FenceRemediation | None:
        found = await stage.api.get(FenceRemediation, name, NAMESPACE)
        return found if conditions(found).get("Succeeded") == succeeded else None

    return await stage.until(reached)


def conditions(found: FenceRemediation) -> dict[str, str]:
    return {each.type: each.status for each in found.status.conditions}


async def covered(stage: FencingStage, **policy: Any) -> Node:
    node = await stage.node("a")
    await stage.node("b")
    await stage.mechanism()
    await stage.policy("bmc", **policy)
    return node


def test_a_request_has_its_node_fenced_and_what_it_had_released(fencing: Any):
    async def story(stage: FencingStage) -> None:
        node = await covered(stage)
        await stage.attachment(node)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            made = await request(stage)
            found = await said(stage, "True")
            fence = await stage.until_phase("a", Phase.FENCED)
        assert found.status.fence == fence.name
        assert conditions(found) == {"Processing": "False", "Succeeded": "True"}
        assert REMEDIATION_FINALIZER in found.metadata.finalizers
        assert fence.name == fence_of(made, node) or not fence.spec.requested_by
        assert stage.machines.off == {"a"}

    fencing(story)


def test_a_request_for_a_node_that_answers_is_a_request_like_others(fencing: Any):
    async def story(stage: FencingStage) -> None:
        node = await covered(stage)
        async with stage.running():
            await asyncio.sleep(5)
            made = await request(stage)
            found = await said(stage, "True")
            fence = await stage.until_phase("a", Phase.FENCED)
        assert found.status.fence == fence.name == fence_of(made, node)
        assert fence.spec.requested_by == "FenceRemediation default/a"
        assert fence.spec.reason == "unhealthy for 300 s"
        assert not fence.spec.override

    fencing(story)


def test_a_pause_holds_a_request_and_the_request_says_why(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage, paused="maintenance")
        async with stage.running():
            await asyncio.sleep(5)
            await request(stage)

            async def paused() -> FenceRemediation | None:
                found = await stage.api.get(FenceRemediation, "a", NAMESPACE)
                return (
                    found if any("maintenance" in each.message for each in found.status.conditions) else None
                )

            found = await stage.until(paused)
        assert conditions(found) == {"Processing": "True", "Succeeded": "Unknown"}
        assert not stage.machines.off

    fencing(story)


def test_a_request_that_is_deleted_takes_back_a_fence_that_has_shown_nothing(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage, paused="maintenance")
        async with stage.running():
            await asyncio.sleep(5)
            await request(stage)
            await stage.until_phase("a", Phase.PENDING)
            await stage.api.delete(FenceRemediation, "a", NAMESPACE)
            fence = await stage.until_phase("a", Phase.CANCELLED)

            async def gone() -> bool:
                return await stage.api.find(FenceRemediation, "a", NAMESPACE) is None

            await stage.until(gone)
            await stage.pause("")
            await asyncio.sleep(60)
        assert fence.spec.unfence
        assert not stage.machines.off

    fencing(story)


def test_a_fence_that_has_shown_that_its_node_is_off_outlives_the_request(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await request(stage)
            await said(stage, "True")
            await stage.api.delete(FenceRemediation, "a", NAMESPACE)
            await asyncio.sleep(120)
            assert await stage.api.find(FenceRemediation, "a", NAMESPACE) is None
            fence = await stage.fence("a")
        assert fence is not None
        assert (fence.status.phase, fence.spec.unfence) == (Phase.FENCED, False)

    fencing(story)


def test_a_health_check_that_waits_no_more_gets_its_fence_taken_back_and_is_told(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage, paused="maintenance")
        async with stage.running():
            await asyncio.sleep(5)
            made = await request(stage)
            await stage.until_phase("a", Phase.PENDING)
            mark = {"metadata": {"annotations": {TIMED_OUT: "2026-01-01T00:00:00Z"}}}
            await stage.api.patch(FenceRemediation, made.name, mark, NAMESPACE)
            found = await said(stage, "False")
            fence = await stage.until_phase("a", Phase.CANCELLED)
        assert fence.spec.unfence
        assert conditions(found)["Processing"] == "False"

    fencing(story)


def test_two_requests_about_one_node_go_by_one_fence(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await request(stage, "a-1", **{NODE_NAME: "a"})
            first = await said(stage, "True", "a-1")
            await request(stage, "a-2", **{NODE_NAME: "a"})
            second = await said(stage, "True", "a-2")
        assert first.status.fence == second.status.fence
        assert len(stage.bmc.given) == 1

    fencing(story)


@pytest.mark.parametrize(
    ("name", "policies", "reason"), [("a", 0, "NoPolicy"), ("a", 2, "NoPolicy"), ("nosuch", 1, "NoSuchNode")]
)
def test_what_cannot_be_fenced_is_told_at_once(fencing: Any, name: str, policies: int, reason: str):
    async def story(stage: FencingStage) -> None:
        await stage.node("a")
        await stage.mechanism()
        for number in range(policies):
            await stage.policy("bmc", name=f"policy-{number}")
        async with stage.running():
            await asyncio.sleep(5)
            await request(stage, name)
            found = await said(stage, "False", name)
        assert {each.reason for each in found.status.conditions} == {reason}
        assert not stage.machines.off

    fencing(story)


def test_a_controller_that_dies_at_any_await_has_its_successor_ask_once_and_leave_nothing(fencing: Any):
    async def crashed_at(stage: FencingStage, steps: int) -> bool:
        await covered(stage, paused="maintenance")
        made = await request(stage)
        ended = False
        for deleted in (False, True):
            if deleted:
                await stage.api.delete(FenceRemediation, "a", NAMESPACE)
            for _ in range(3):  # the finalizer, the fence, and what is told of it
                controller = stage.controller()
                await stage.fill(controller, *KINDS)
                ended = await ended_at(controller.reconcile(key_of(made)), steps) or ended
            async with stage.running():
                fence = await stage.until_phase("a", Phase.CANCELLED if deleted else Phase.PENDING)
                await asyncio.sleep(20)
            assert len((await stage.api.list(NodeFence)).items) == 1
        assert fence.spec.unfence
        assert await stage.api.find(FenceRemediation, "a", NAMESPACE) is None
        return ended

    steps = 0
    while fencing(lambda stage, steps=steps: crashed_at(stage, steps)):
        steps += 1
    assert steps >= 2


# --- the rules, without a cluster


def node_named(name: str = "a", uid: str = "u") -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=uid))


def asked(
    *, deleting: bool = False, fence: str = "", annotations: dict[str, str] | None = None
) -> FenceRemediation:
    meta = ObjectMeta(
        name="a",
        namespace=NAMESPACE,
        uid="r",
        annotations=annotations or {},
        finalizers=(REMEDIATION_FINALIZER,),
        deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
    )
    return FenceRemediation(
        metadata=meta, spec=FenceRemediationSpec(), status=FenceRemediationStatus(fence=fence)
    )


def fence_in(phase: str, name: str = "") -> NodeFence:
    own = fence_of(asked(), node_named())
    spec = NodeFenceSpec(node_name="a", node_uid="u")
    return NodeFence(metadata=ObjectMeta(name=name or own), spec=spec, status=NodeFenceStatus(phase=phase))


@pytest.mark.parametrize("phase", [*Phase.OPEN, *Phase.OVER, ""])
@pytest.mark.parametrize("timed_out", [True, False])
@pytest.mark.parametrize("deleting", [True, False])
def test_only_a_fence_of_its_own_that_has_shown_nothing_is_taken_back(
    phase: str, timed_out: bool, deleting: bool
):
    marks = {TIMED_OUT: "now"} if timed_out else {}
    own, others = fence_in(phase), fence_in(phase, "by-another")
    taken = decide_remedy(
        asked(deleting=deleting, fence=own.name, annotations=marks), node_named(), [own], []
    )
    left = decide_remedy(
        asked(deleting=deleting, fence=others.name, annotations=marks), node_named(), [others], []
    )
    unproven = phase in ("", Phase.PENDING, Phase.FENCING, Phase.AWAITING_PERSON)
    assert (taken.action is Remedy.TAKE_BACK) is (unproven and (timed_out or deleting))
    assert left.action is not Remedy.TAKE_BACK


def test_a_fence_that_was_deleted_is_not_asked_for_again():
    decision = decide_remedy(asked(fence="gone"), node_named(), [], [FencePolicy()])
    assert (decision.action, decision.reason.code, decision.succeeded) == (Remedy.TELL, "FenceGone", "False")


def test_the_fence_of_a_former_request_is_not_the_fence_of_this_one():
    before = fence_in(Phase.UNFENCED, "a-former")
    decision = decide_remedy(asked(), node_named(), [before], [FencePolicy()])
    assert decision.action is Remedy.ASK
    assert decision.fence == fence_of(asked(), node_named())


def test_a_condition_keeps_the_time_of_its_status():
    decision = decide_remedy(asked(), node_named(), [fence_in(Phase.PENDING)], [])
    first = told(asked(), decision, "2026-01-01T00:00:00Z")
    assert first is not None
    assert {each["lastTransitionTime"] for each in first} == {"2026-01-01T00:00:00Z"}


def test_another_node_of_the_name_is_another_fence():
    assert fence_of(asked(), node_named(uid="u")) != fence_of(asked(), node_named(uid="v"))
