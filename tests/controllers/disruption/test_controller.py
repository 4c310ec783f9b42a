"""Budgets are counted as pods come and go, and evictions spend what was counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mooring.controllers.disruption.controller import DisruptionController
from mooring.kube.errors import Throttled
from mooring.kube.objects import Event, Pod, PodDisruptionBudget, StatefulSet

Desk = Callable[[Any], Any]
READY = [{"type": "Ready", "status": "True"}]


async def run_pods(desk: Any, *names: str, owner: Any = None) -> None:
    for name in names:
        references = []
        if owner is not None:
            about = {"apiVersion": "apps/v1", "kind": type(owner).__name__, "name": owner.name}
            references = [about | {"uid": owner.uid, "controller": True}]
        metadata = {"name": name, "labels": {"app": "web"}, "ownerReferences": references}
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await desk.api.create(Pod, {"metadata": metadata, "spec": spec}, "default")
        status = {"status": {"phase": "Running", "conditions": READY}}
        await desk.api.patch(Pod, name, status, "default", subresource="status")


async def make_set(desk: Any, replicas: int) -> StatefulSet:
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
    made: StatefulSet = await desk.api.create(
        StatefulSet, {"metadata": {"name": "web"}, "spec": spec}, "default"
    )
    return made


async def make_budget(desk: Any, **spec: Any) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    await desk.api.create(PodDisruptionBudget, body, "default")


async def evict(desk: Any, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await desk.api.create_raw(Pod, body, name=name, namespace="default", sub="eviction")


async def status_of(desk: Any) -> Any:
    await asyncio.sleep(1)
    return (await desk.api.get(PodDisruptionBudget, "b", "default")).status


def test_of_two_healthy_pods_of_which_one_is_needed_one_can_be_evicted(desk: Desk):
    async def scene(desk: Any):
        working = asyncio.create_task(desk.make(DisruptionController).run())
        await run_pods(desk, "a", "b")
        await make_budget(desk, minAvailable=1)
        assert (await status_of(desk)).disruptions_allowed == 1
        await evict(desk, "a")
        with pytest.raises(Throttled, match="violate the pod's disruption budget"):
            await evict(desk, "b")
        await desk.api.delete(Pod, "a", "default", grace_period_seconds=0)
        await run_pods(desk, "c")
        status = await status_of(desk)
        assert (status.current_healthy, status.disruptions_allowed, status.disrupted_pods) == (2, 1, {})
        assert not working.done()

    desk(scene)


def test_what_should_be_there_is_what_the_set_wants_and_changes_with_it(desk: Desk):
    async def scene(desk: Any):
        working = asyncio.create_task(desk.make(DisruptionController).run())
        owner = await make_set(desk, 3)
        await run_pods(desk, "web-0", "web-1", "web-2", owner=owner)
        await make_budget(desk, maxUnavailable=1)
        status = await status_of(desk)
        assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (3, 2, 1)
        await desk.api.patch(StatefulSet, "web", {"spec": {"replicas": 4}}, "default")
        status = await status_of(desk)
        assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (4, 3, 0)
        assert not working.done()

    desk(scene)


def test_pods_of_a_controller_that_is_gone_allow_nothing_and_an_event_says_why(desk: Desk):
    async def scene(desk: Any):
        working = asyncio.create_task(desk.make(DisruptionController).run())
        owner = await make_set(desk, 2)
        await run_pods(desk, "web-0", "web-1", owner=owner)
        await desk.api.delete(StatefulSet, "web", "default")
        await make_budget(desk, maxUnavailable=1)
        status = await status_of(desk)
        assert status.disruptions_allowed == 0
        assert [each.reason for each in status.conditions] == ["SyncFailed"]
        events = {each.reason: each for each in (await desk.api.list(Event, "default")).items}
        assert "found no controllers for pod" in events["CalculateExpectedPodCountFailed"].message
        assert not working.done()

    desk(scene)


def test_a_kind_without_a_scale_is_named(desk: Desk):
    async def scene(desk: Any):
        working = asyncio.create_task(desk.make(DisruptionController).run())
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
        metadata = {"name": "p", "labels": {"app": "web"}, "ownerReferences": [reference]}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await desk.api.create(Pod, {"metadata": metadata, "spec": spec}, "default")
        await make_budget(desk, maxUnavailable=1)
        [condition] = (await status_of(desk)).conditions
        assert condition.message == "jobs.batch does not implement the scale subresource"
        assert not working.done()

    desk(scene)


def test_a_pod_that_was_to_be_deleted_and_was_not_loses_the_condition(desk: Desk):
    async def scene(desk: Any):
        working = asyncio.create_task(desk.make(DisruptionController).run())
        await run_pods(desk, "a")
        since = desk.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": since,
        }
        body = {"status": {"conditions": [target]}}
        await desk.api.patch(Pod, "a", body, "default", subresource="status", strategy="strategic")
        await asyncio.sleep(100)
        assert await _target(desk) == "True"
        await asyncio.sleep(30)
        assert await _target(desk) == "False"
        assert not working.done()

    desk(scene)


async def _target(desk: Any) -> str:
    pod = await desk.api.get(Pod, "a", "default")
    return next(each.status for each in pod.status.conditions if each.type == "DisruptionTarget")
