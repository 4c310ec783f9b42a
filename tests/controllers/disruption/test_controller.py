"""Budgets are counted as pods come and go, and evictions spend what was counted."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from typing import Any, cast

import msgspec
import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.disruption.controller import BudgetKey, DisruptionController
from mooring.kube.errors import Throttled
from mooring.kube.objects import Event, Pod, PodDisruptionBudget, StatefulSet
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.times import format_time
from mooring.simulation.parts.faulty_transport import request

READY = [{"type": "Ready", "status": "True"}]


def about(owner: Any) -> dict[str, Any]:
    """What its pods say of it; of another's kind it is given as that."""
    if isinstance(owner, dict):
        return cast("dict[str, Any]", owner)
    kind = type(owner).__name__
    return {"apiVersion": "apps/v1", "kind": kind, "name": owner.name, "uid": owner.uid}


async def run_pods(stage: ControllerStage, *names: str, owner: Any = None) -> None:
    for name in names:
        references = []
        if owner is not None:
            references = [about(owner) | {"controller": True}]
        metadata = {"name": name, "labels": {"app": "web"}, "ownerReferences": references}
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": metadata, "spec": spec}, "default")
        status = {"status": {"phase": "Running", "conditions": READY}}
        await stage.api.patch(Pod, name, status, "default", subresource="status")


async def make_set(stage: ControllerStage, replicas: int) -> StatefulSet:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {
        "replicas": replicas,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
    }
    made: StatefulSet = await stage.api.create(
        StatefulSet, {"metadata": {"name": "web"}, "spec": spec}, "default"
    )
    return made


async def make_budget(stage: ControllerStage, **spec: Any) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    await stage.api.create(PodDisruptionBudget, body, "default")


async def evict(stage: ControllerStage, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await stage.api.create_raw(Pod, body, name=name, namespace="default", sub="eviction")


def controller_whose_clock_is_wrong(stage: ControllerStage, hours: int) -> DisruptionController:
    wrong = timedelta(hours=hours)
    return DisruptionController(stage.api, now=lambda: stage.now() + wrong, random=Random(1))


async def status_of(stage: ControllerStage) -> Any:
    await asyncio.sleep(1)
    return (await stage.api.get(PodDisruptionBudget, "b", "default")).status


def test_of_two_healthy_pods_of_which_one_is_needed_one_can_be_evicted(play: Play):
    async def story(stage: ControllerStage):
        working = asyncio.create_task(stage.make(DisruptionController).run())
        await run_pods(stage, "a", "b")
        await make_budget(stage, minAvailable=1)
        assert (await status_of(stage)).disruptions_allowed == 1
        await evict(stage, "a")
        with pytest.raises(Throttled, match="violate the pod's disruption budget"):
            await evict(stage, "b")
        await stage.api.delete(Pod, "a", "default", grace_period_seconds=0)
        await run_pods(stage, "c")
        status = await status_of(stage)
        assert (status.current_healthy, status.disruptions_allowed, status.disrupted_pods) == (2, 1, {})
        assert not working.done()

    play(story)


def test_what_should_be_there_is_what_the_set_wants_and_changes_with_it(play: Play):
    async def story(stage: ControllerStage):
        working = asyncio.create_task(stage.make(DisruptionController).run())
        owner = await make_set(stage, 3)
        await run_pods(stage, "web-0", "web-1", "web-2", owner=owner)
        await make_budget(stage, maxUnavailable=1)
        status = await status_of(stage)
        assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (3, 2, 1)
        await stage.api.patch(StatefulSet, "web", {"spec": {"replicas": 4}}, "default")
        status = await status_of(stage)
        assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (4, 3, 0)
        assert not working.done()

    play(story)


def test_pods_of_a_controller_that_is_gone_allow_nothing_and_an_event_says_why(play: Play):
    async def story(stage: ControllerStage):
        working = asyncio.create_task(stage.make(DisruptionController).run())
        owner = await make_set(stage, 2)
        await run_pods(stage, "web-0", "web-1", owner=owner)
        await stage.api.delete(StatefulSet, "web", "default")
        await make_budget(stage, maxUnavailable=1)
        status = await status_of(stage)
        assert status.disruptions_allowed == 0
        assert [each.reason for each in status.conditions] == ["SyncFailed"]
        events = {each.reason: each for each in (await stage.api.list(Event, "default")).items}
        assert "found no controllers for pod" in events["CalculateExpectedPodCountFailed"].message
        assert not working.done()

    play(story)


def test_a_kind_without_a_scale_is_named(play: Play):
    async def story(stage: ControllerStage):
        working = asyncio.create_task(stage.make(DisruptionController).run())
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
        metadata = {"name": "p", "labels": {"app": "web"}, "ownerReferences": [reference]}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": metadata, "spec": spec}, "default")
        await make_budget(stage, maxUnavailable=1)
        [condition] = (await status_of(stage)).conditions
        assert condition.message == "jobs.batch does not implement the scale subresource"
        assert not working.done()

    play(story)


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_an_eviction_counts_for_two_minutes_whatever_the_clock_shows(play: Play, hours: int):
    """The API server stopped between the two: it has spent the budget, and the pod stays."""

    async def story(stage: ControllerStage):
        working = asyncio.create_task(controller_whose_clock_is_wrong(stage, hours).run())
        await run_pods(stage, "a", "b")
        await make_budget(stage, minAvailable=1)
        await status_of(stage)
        spent = {"disruptedPods": {"a": format_time(stage.now())}, "disruptionsAllowed": 0}
        await stage.api.patch(PodDisruptionBudget, "b", {"status": spent}, "default", subresource="status")
        await asyncio.sleep(115)
        status = await status_of(stage)
        assert (status.current_healthy, status.disruptions_allowed) == (1, 0)
        assert list(status.disrupted_pods) == ["a"]
        await asyncio.sleep(10)
        status = await status_of(stage)
        assert (status.current_healthy, status.disruptions_allowed, status.disrupted_pods) == (2, 1, {})
        assert not working.done()

    play(story)


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_a_pod_that_was_to_be_deleted_and_was_not_loses_the_condition(play: Play, hours: int):
    async def story(stage: ControllerStage):
        working = asyncio.create_task(controller_whose_clock_is_wrong(stage, hours).run())
        await run_pods(stage, "a")
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": format_time(stage.now()),
        }
        body = {"status": {"conditions": [target]}}
        await stage.api.patch(Pod, "a", body, "default", subresource="status", strategy="strategic")
        await asyncio.sleep(100)
        assert await _target(stage) == "True"
        await asyncio.sleep(30)
        assert await _target(stage) == "False"
        assert not working.done()

    play(story)


async def _target(stage: ControllerStage) -> str:
    pod = await stage.api.get(Pod, "a", "default")
    return next(each.status for each in pod.status.conditions if each.type == "DisruptionTarget")


ROLLOUTS: dict[str, Any] = {
    "metadata": {"name": "rollouts.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "rollouts", "kind": "Rollout"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
                "subresources": {
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
                },
            }
        ],
    },
}


def test_pods_are_counted_as_they_are_when_their_scale_was_read(play: Play):
    """That of another's kind is read live: the answer may be seconds away."""

    async def story(stage: ControllerStage):
        await stage.api.create(CustomResourceDefinition, ROLLOUTS)
        body = {"apiVersion": "example.com/v1", "kind": "Rollout", "spec": {"replicas": 3}}
        body["metadata"] = {"name": "web"}
        where = "/apis/example.com/v1/namespaces/default/rollouts"
        uid = msgspec.json.decode(await stage.api.request("POST", where, body=body))["metadata"]["uid"]
        owner = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "web", "uid": uid}
        await run_pods(stage, "a", "b", "c", owner=owner)
        await make_budget(stage, maxUnavailable=1)
        controller = stage.make(DisruptionController)
        await stage.fill(controller, Pod, PodDisruptionBudget)
        held = stage.wire.hold(request("GET", "/scale"))
        step = asyncio.create_task(controller.reconcile(BudgetKey("default/b")))
        await held.arrived.wait()
        unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        answer = await stage.api.patch(Pod, "a", unready, "default", subresource="status")
        controller.cache(Pod).accept(answer)
        await run_pods(stage, "d", owner=owner)
        await stage.fill(controller, Pod)
        held.release()
        await step
        status = (await stage.api.get(PodDisruptionBudget, "b", "default")).status
        assert (status.expected_pods, status.current_healthy, status.disruptions_allowed) == (3, 2, 0)

    play(story)
