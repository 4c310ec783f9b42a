"""What becomes known while pods are adopted, or a set is written, counts for what is decided then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from controller_stage import ControllerStage, Play, refuse_deletions

from mooring.controllers.replicaset.controller import ReplicaSetController
from mooring.controllers.replicaset.decide import decide
from mooring.controllers.replicaset.deployment import DeploymentController
from mooring.kube.errors import Conflict, Forbidden
from mooring.kube.objects import Deployment, Pod, ReplicaSet
from mooring.simulation.parts.faulty_transport import request

TEMPLATE = {"metadata": {"labels": {"app": "r"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SPEC = {"replicas": 2, "selector": {"matchLabels": {"app": "r"}}, "template": TEMPLATE}
HELD = {"metadata": {"finalizers": ["example.com/hold"]}}
ORPHAN = {**TEMPLATE, "metadata": {"name": "orphan", "labels": {"app": "r"}}}


def test_no_pod_is_surplus_any_more_when_another_began_to_end_meanwhile(play: Play):
    """One that is adopted would be the third. The answer to that may be seconds away."""

    async def story(stage: ControllerStage):
        await stage.api.create(ReplicaSet, {"metadata": {"name": "r"}, "spec": SPEC}, "default")
        controller = stage.make(ReplicaSetController)
        await stage.fill(controller, ReplicaSet)
        await controller.reconcile("default/r")
        first = (await stage.api.list(Pod)).items[0]
        await stage.api.patch(Pod, first.name, HELD, "default")
        await stage.api.create(Pod, ORPHAN, "default")
        await stage.fill(controller, ReplicaSet, Pod)
        held = stage.wire.hold(request("PATCH", "pods/orphan"))
        step = asyncio.create_task(controller.reconcile("default/r"))
        await held.arrived.wait()
        await stage.api.delete(Pod, first.name, "default")
        controller.cache(Pod).accept(await stage.api.get(Pod, first.name, "default"))
        held.release()
        await step
        assert sum(not each.deleting for each in (await stage.api.list(Pod)).items) == 2

    play(story)


def test_a_surplus_pod_that_may_not_be_deleted_keeps_no_other(play: Play):
    async def story(stage: ControllerStage):
        spec = {**SPEC, "replicas": 3}
        await stage.api.create(ReplicaSet, {"metadata": {"name": "r"}, "spec": spec}, "default")
        controller = stage.make(ReplicaSetController)
        await stage.fill(controller, ReplicaSet)
        await controller.reconcile("default/r")
        await stage.api.patch(ReplicaSet, "r", {"spec": {"replicas": 0}}, "default")
        await stage.fill(controller, ReplicaSet, Pod)
        owned = controller.cache(Pod).items()
        first = next(each.pod for each in decide(controller.cache(ReplicaSet).items()[0], owned) if each.pod)
        refuse_deletions(stage.api, first.name)
        with pytest.raises(Forbidden):
            await controller.reconcile("default/r")
        assert [each.name for each in (await stage.api.list(Pod)).items] == [first.name]

    play(story)


def test_a_deployment_with_the_longest_name_has_its_set(play: Play):
    async def story(stage: ControllerStage):
        await stage.api.create(Deployment, {"metadata": {"name": "d" * 253}, "spec": SPEC}, "default")
        controller = stage.make(DeploymentController)
        await stage.fill(controller, Deployment)
        await controller.reconcile("default/" + "d" * 253)
        (made,) = (await stage.api.list(ReplicaSet)).items
        assert len(made.name) == 253

    play(story)


async def begins_to_end(stage: ControllerStage, name: str) -> Pod:
    await stage.api.delete(Pod, name, "default")
    return await stage.api.get(Pod, name, "default")


async def is_scaled_up(stage: ControllerStage, name: str) -> ReplicaSet:
    return await stage.api.patch(ReplicaSet, "r", {"spec": {"replicas": 3}}, "default")


@pytest.mark.parametrize(("change", "left"), [(begins_to_end, 2), (is_scaled_up, 3)])
def test_no_pod_is_surplus_any_more_when_others_are_few_or_wanted_meanwhile(
    play: Play, change: Callable[[ControllerStage, str], Awaitable[Any]], left: int
):
    """Two of four are to go. The answer to the first deletion may be seconds away."""

    async def story(stage: ControllerStage):
        await stage.api.create(
            ReplicaSet, {"metadata": {"name": "r"}, "spec": {**SPEC, "replicas": 4}}, "default"
        )
        controller = stage.make(ReplicaSetController)
        await stage.fill(controller, ReplicaSet)
        await controller.reconcile("default/r")
        for pod in (await stage.api.list(Pod)).items:
            await stage.api.patch(Pod, pod.name, HELD, "default")
        await stage.api.patch(ReplicaSet, "r", {"spec": {"replicas": 2}}, "default")
        await stage.fill(controller, ReplicaSet, Pod)
        held = stage.wire.hold(lambda sent: sent.method == "DELETE")
        step = asyncio.create_task(controller.reconcile("default/r"))
        await held.arrived.wait()
        names = sorted(each.name for each in (await stage.api.list(Pod)).items)
        kept = next(name for name in names if name not in going(controller))
        changed = await change(stage, kept)
        controller.cache(type(changed)).accept(changed)
        held.release()
        await step
        assert sum(not each.deleting for each in (await stage.api.list(Pod)).items) == left

    play(story)


def going(controller: ReplicaSetController) -> set[str]:
    """The pods that are to be deleted."""
    owner, pods = controller.cache(ReplicaSet).get("default/r"), list(controller.cache(Pod).items())
    assert owner is not None
    return {each.pod.name for each in decide(owner, pods) if each.pod is not None}


def edition(name: str) -> dict[str, Any]:
    return {**TEMPLATE, "metadata": {"labels": {"app": "r"}, "annotations": {"edition": name}}}


async def replica_set(stage: ControllerStage, name: str, owner: Any, replicas: int) -> None:
    """One of the deployment's, all of whose pods are available."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner.name, "uid": owner.uid}
    metadata = {"name": name, "labels": {"app": "r"}, "ownerReferences": [{**reference, "controller": True}]}
    spec = {**SPEC, "replicas": replicas, "template": edition(name)}
    await stage.api.create(ReplicaSet, {"metadata": metadata, "spec": spec}, "default")
    await have_available(stage, name, replicas, replicas)


async def have_available(stage: ControllerStage, name: str, replicas: int, available: int) -> ReplicaSet:
    status = {"status": {"replicas": replicas, "availableReplicas": available}}
    return await stage.api.patch(ReplicaSet, name, status, "default", subresource="status")


def test_a_replica_set_whose_revision_is_no_number_keeps_no_rollout_waiting(play: Play):
    async def story(stage: ControllerStage):
        spec = {**SPEC, "template": edition("new"), "revisionHistoryLimit": 1}
        owner = await stage.api.create(Deployment, {"metadata": {"name": "r"}, "spec": spec}, "default")
        for name in ("a", "new"):
            await replica_set(stage, name, owner, 0)
            revision = {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "first"}}}
            await stage.api.patch(ReplicaSet, name, revision, "default")
        controller = stage.make(DeploymentController)
        await stage.fill(controller, Deployment, ReplicaSet)
        await controller.reconcile("default/r")
        found = {each.name: each for each in (await stage.api.list(ReplicaSet)).items}
        assert found["new"].metadata.annotations["deployment.kubernetes.io/revision"] == "1"
        assert found["new"].spec.replicas == 2

    play(story)


def test_a_rollout_takes_no_pod_down_beside_one_that_became_unavailable_meanwhile(play: Play):
    """maxUnavailable is 1. The answer to the write of the new set's annotations may be seconds away."""

    async def story(stage: ControllerStage):
        rolling = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
        spec = {**SPEC, "replicas": 4, "strategy": rolling, "template": edition("new")}
        owner = await stage.api.create(Deployment, {"metadata": {"name": "r"}, "spec": spec}, "default")
        for name, replicas in (("a", 2), ("b", 2), ("new", 0)):
            await replica_set(stage, name, owner, replicas)
        controller = stage.make(DeploymentController)
        await stage.fill(controller, Deployment, ReplicaSet)
        held = stage.wire.hold(request("PATCH", "replicasets/new"))
        step = asyncio.create_task(controller.reconcile("default/r"))
        await held.arrived.wait()
        controller.cache(ReplicaSet).accept(await have_available(stage, "b", 2, 1))
        held.release()
        with contextlib.suppress(Conflict):
            await step
        found = {each.name: each.spec.replicas for each in (await stage.api.list(ReplicaSet)).items}
        assert found == {"a": 2, "b": 1, "new": 0}

    play(story)
