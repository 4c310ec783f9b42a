"""What waits for a node that may be lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fencing_stage import FencingStage

from mooring.controllers.fencing.stakes import stakes_of
from mooring.kube.objects import Node, ObjectMeta, Pod, PodDisruptionBudget, PodSpec, PriorityClass
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.objects.meta import LabelSelector, LabelSelectorRequirement
from mooring.kube.objects.policy import PodDisruptionBudgetSpec, PodDisruptionBudgetStatus

WEB = LabelSelector(match_labels={"app": "web"})
UNREADABLE = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Nonsense"),))


def pod(name: str = "web-0", priority: int = 0, **labels: str) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", labels=labels or {"app": "web"})
    return Pod(metadata=meta, spec=PodSpec(priority=priority))


def budget(
    selector: LabelSelector | None = WEB, healthy: int = 2, *, namespace: str = "default", seen: int = 1
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="web", namespace=namespace, generation=1),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(
            observed_generation=seen, current_healthy=healthy, desired_healthy=2
        ),
    )


@pytest.mark.parametrize(
    ("found", "hold"),
    [
        (budget(), True),
        (budget(healthy=1), False),
        (budget(healthy=1, namespace="another"), True),
        (budget(LabelSelector(match_labels={"app": "db"}), healthy=1), True),
        (budget(LabelSelector(), healthy=1), False),
        (budget(None, healthy=1), True),
        (budget(seen=0), False),
        (budget(UNREADABLE), False),
    ],
)
def test_a_budget_holds_unless_one_of_the_nodes_pods_is_missed_or_that_is_not_known(
    found: PodDisruptionBudget, hold: bool
):
    assert stakes_of(Node(), [pod()], [found], 0).budgets_hold is hold


def test_no_budget_is_violated_where_there_is_none():
    assert stakes_of(Node(), [pod()], [], 0).budgets_hold


def test_a_pod_that_has_nothing_exclusive_lends_its_node_no_priority():
    assert stakes_of(Node(), [pod(priority=100)], [], 0).priority == 0


BUDGET = {
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


@pytest.mark.parametrize("violated", [False, True])
def test_a_node_has_its_policys_patience_to_come_back_unless_a_budget_is_violated(
    fencing: Any, violated: bool
):
    async def story(stage: FencingStage) -> None:
        await stage.node("a")
        await stage.node("b")
        await stage.mechanism()
        await stage.policy("bmc", worth={"patienceSeconds": 120, "onlyExclusive": False})
        spec = {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(
            Pod, {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": spec}, "default"
        )
        made = await stage.api.create(PodDisruptionBudget, BUDGET, "default")
        status = {"observedGeneration": 1, "currentHealthy": 0 if violated else 1, "desiredHealthy": 1}
        await stage.api.revise(made, {"status": status}, subresource="status")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await asyncio.sleep(30)
            assert bool(stage.machines.off) is violated
            if not violated:
                fence = await stage.until_phase("a", "Pending")
                assert fence.status.reason == "Patience"
            await stage.until_phase("a", "Fenced")

    fencing(story)


def test_of_two_nodes_that_wait_for_the_budget_the_one_of_the_more_important_pod_is_fenced_first(
    fencing: Any,
):
    async def story(stage: FencingStage) -> None:
        for name in ("a", "b", "c", "d"):
            await stage.node(name)
        await stage.api.create(PriorityClass, {"metadata": {"name": "high"}, "value": 1000})
        for node, more in (("b", {}), ("c", {"priorityClassName": "high"})):
            claim = {"name": "v", "persistentVolumeClaim": {"claimName": f"of-{node}"}}
            spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": [claim], **more}
            await stage.api.create(Pod, {"metadata": {"name": node}, "spec": spec}, "default")
        await stage.mechanism()
        await stage.policy("bmc", budget={"maxConcurrent": 1}, storm={"nodes": 0})
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            await stage.silent("b")
            await asyncio.sleep(1)
            await stage.silent("c")
            await asyncio.sleep(10)
            assert stage.machines.off == {"a"}
            stage.machines.off.discard("a")
            await stage.report("a", "boot-2")
            await stage.until_phase("c", "Fenced")
            waits = await stage.until_phase("b", "Pending")
            assert waits.status.reason == "BudgetExhausted"
            assert len((await stage.api.list(NodeFence)).items) == 3

    fencing(story)
