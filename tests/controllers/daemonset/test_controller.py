"""A DaemonSet with real scheduling: its pods come to their nodes, and are replaced."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from controller_stage import ControllerStage, Play, refuse_deletions

from mooring.controllers.daemonset.controller import MOST_REFUSED, DaemonSetController
from mooring.controllers.scheduling.controller import SchedulingController
from mooring.kube.errors import Forbidden, NotFound
from mooring.kube.objects import ControllerRevision, DaemonSet, Event, Node, Pod
from mooring.simulation.parts.faulty_transport import request

TEMPLATE = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def add_node(stage: ControllerStage, name: str, **spec: Any) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}}
    await stage.api.create(Node, {"metadata": {"name": name}, "spec": spec, "status": status})


async def add_set(stage: ControllerStage, name: str = "d", **spec: Any) -> DaemonSet:
    body = {"selector": {"matchLabels": {"app": "d"}}, "template": TEMPLATE, **spec}
    return await stage.api.create(DaemonSet, {"metadata": {"name": name}, "spec": body}, "default")


async def pods(stage: ControllerStage) -> dict[str, Pod]:
    await asyncio.sleep(2)
    return {pod.spec.node_name: pod for pod in (await stage.api.list(Pod, "default")).items}


async def make_ready(stage: ControllerStage) -> None:
    for pod in (await stage.api.list(Pod, "default")).items:
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await stage.api.patch(Pod, pod.name, {"status": ready}, "default", subresource="status")


def start(stage: ControllerStage) -> list[asyncio.Task[None]]:
    return [
        asyncio.create_task(stage.make(kind).run()) for kind in (DaemonSetController, SchedulingController)
    ]


def test_every_node_gets_its_pod_also_a_cordoned_one_and_one_that_comes_later(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_node(stage, "a")
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        await add_node(stage, "b", unschedulable=True, taints=[taint])
        await add_set(stage)
        assert set(await pods(stage)) == {"a", "b"}
        await add_node(stage, "c")
        assert set(await pods(stage)) == {"a", "b", "c"}
        await make_ready(stage)
        await asyncio.sleep(1)
        status = (await stage.api.get(DaemonSet, "d", "default")).status
        assert (status.desired_number_scheduled, status.number_available) == (3, 3)
        assert not any(task.done() for task in working)

    play(story)


def test_a_set_with_the_longest_name_has_a_pod_and_keeps_the_revision_that_it_is_of(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_node(stage, "a")
        await add_set(stage, "d" * 253, revisionHistoryLimit=0, updateStrategy={"type": "OnDelete"})
        await pods(stage)
        container = {"name": "c", "image": "another"}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await stage.api.patch(DaemonSet, "d" * 253, patch, "default")
        (pod,) = (await pods(stage)).values()
        revisions = {each.name[224:]: each for each in (await stage.api.list(ControllerRevision)).items}
        assert len(revisions) == 2
        assert pod.metadata.labels["controller-revision-hash"] in revisions
        assert not any(task.done() for task in working)

    play(story)


def test_a_new_template_rolls_through_the_nodes_one_after_the_other_and_back(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        for name in "abc":
            await add_node(stage, name)
        await add_set(stage)
        await pods(stage)
        await make_ready(stage)
        container = {"name": "c", "image": "another"}
        await stage.api.patch(
            DaemonSet, "d", {"spec": {"template": {"spec": {"containers": [container]}}}}, "default"
        )
        for _ in range(6):
            found = await pods(stage)
            assert sum(pod.deleting or not pod.status.conditions for pod in found.values()) <= 1
            for pod in found.values():
                if pod.deleting:
                    await stage.api.delete(Pod, pod.name, "default", grace_period_seconds=0)
            await asyncio.sleep(1)
            await make_ready(stage)
        found = await pods(stage)
        assert {pod.spec.containers[0].image for pod in found.values()} == {"another"}
        revisions = {each.revision for each in (await stage.api.list(ControllerRevision, "default")).items}
        assert revisions == {1, 2}
        status = (await stage.api.get(DaemonSet, "d", "default")).status
        assert status.updated_number_scheduled == 3
        assert not any(task.done() for task in working)

    play(story)


def test_a_pod_that_fails_again_and_again_is_replaced_slower_and_slower(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_node(stage, "a")
        await add_set(stage)
        seen: set[str] = set()
        for _ in range(60):
            await asyncio.sleep(1)
            for pod in (await stage.api.list(Pod, "default")).items:
                seen.add(pod.name)
                if pod.deleting:
                    await stage.api.delete(Pod, pod.name, "default", grace_period_seconds=0)
                elif not pod.finished:
                    await stage.api.patch(
                        Pod, pod.name, {"status": {"phase": "Failed"}}, "default", subresource="status"
                    )
        assert 4 <= len(seen) <= 8
        reasons = {each.reason for each in (await stage.api.list(Event, "default")).items}
        assert "FailedDaemonPod" in reasons
        assert not any(task.done() for task in working)

    play(story)


def test_an_orphan_that_the_selector_matches_is_adopted(play: Play):
    async def story(stage: ControllerStage):
        await add_node(stage, "a")
        spec = {**TEMPLATE["spec"], "nodeName": "a"}
        await stage.api.create(
            Pod, {"metadata": {"name": "p", "labels": {"app": "d"}}, "spec": spec}, "default"
        )
        working = start(stage)
        made = await add_set(stage, updateStrategy={"type": "OnDelete"})
        found = await pods(stage)
        assert [pod.name for pod in found.values()] == ["p"]
        assert [each.uid for each in found["a"].metadata.owner_references] == [made.uid]
        assert not any(task.done() for task in working)

    play(story)


def test_an_update_takes_no_pod_down_beside_one_that_became_unready_while_another_was_adopted(play: Play):
    """maxUnavailable is 1. The answer to the write that adopts may be seconds away."""

    async def story(stage: ControllerStage):
        for name in "abc":
            await add_node(stage, name)
            spec = {**TEMPLATE["spec"], "nodeName": name}
            body = {"metadata": {"name": name, "labels": {"app": "d"}}, "spec": spec}
            await stage.api.create(Pod, body, "default")
        await make_ready(stage)
        await add_set(stage, updateStrategy={"type": "OnDelete"})
        controller = stage.make(DaemonSetController)
        await stage.fill(controller, DaemonSet, Node, Pod)
        await controller.reconcile("default/d")
        await stage.api.patch(Pod, "a", {"metadata": {"ownerReferences": None}}, "default")
        await stage.api.patch(
            DaemonSet, "d", {"spec": {"updateStrategy": {"type": "RollingUpdate"}}}, "default"
        )
        await stage.fill(controller, DaemonSet, Pod)
        held = stage.wire.hold(request("PATCH", "pods/a"))
        step = asyncio.create_task(controller.reconcile("default/d"))
        await held.arrived.wait()
        unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await stage.api.patch(Pod, "c", unready, "default", subresource="status")
        controller.cache(Pod).accept(await stage.api.get(Pod, "c", "default"))
        held.release()
        await step
        left = {each.name for each in (await stage.api.list(Pod)).items if not each.deleting}
        assert left >= {"a", "b"}

    play(story)


def test_what_is_refused_on_one_node_keeps_no_other_waiting(play: Play):
    """A pod that may not be deleted where it is not to run, and one that may not be made."""

    async def story(stage: ControllerStage):
        working = start(stage)
        await add_node(stage, "a")
        await add_node(stage, "b")
        await add_set(stage)
        first = (await pods(stage))["a"].name
        refuse_deletions(stage.api, first)
        taint = {"key": "example.com/out", "effect": "NoExecute"}
        await stage.api.patch(Node, "a", {"spec": {"taints": [taint]}})
        create = stage.api.create

        async def guarded(kind: Any, body: Any, *about: Any) -> Any:
            if kind is Pod and '"c"' in str(body["spec"]["affinity"]).replace("'", '"'):
                raise Forbidden("denied on this node", status=403)
            return await create(kind, body, *about)

        stage.api.create = guarded  # type: ignore[method-assign]
        for name in ("c", "d"):
            await add_node(stage, name)
        assert set(await pods(stage)) == {"a", "b", "d"}
        assert not any(task.done() for task in working)

    play(story)


def test_creations_that_are_all_refused_are_not_all_tried(play: Play):
    async def story(stage: ControllerStage):
        for number in range(20):
            await add_node(stage, f"n-{number}")
        await add_set(stage)
        controller, tried = stage.make(DaemonSetController), list[str]()
        create = stage.api.create

        async def refused(kind: Any, body: Any, *about: Any) -> Any:
            if kind is not Pod:
                return await create(kind, body, *about)
            tried.append("pod")
            raise Forbidden("exceeded quota", status=403)

        stage.api.create = refused  # type: ignore[method-assign]
        await stage.fill(controller, DaemonSet, Node)
        with pytest.raises(Forbidden):
            await controller.reconcile("default/d")
        assert len(tried) == MOST_REFUSED

    play(story)


def test_failed_pods_that_wait_take_no_turn_of_those_that_are_missing(play: Play, monkeypatch: Any):
    monkeypatch.setattr("mooring.controllers.daemonset.controller.MOST_AT_ONCE", 1)

    async def story(stage: ControllerStage):
        working = start(stage)
        await add_node(stage, "a")
        await add_set(stage)
        for _ in range(20):  # each that fails waits longer to be replaced
            await asyncio.sleep(1)
            for pod in (await stage.api.list(Pod, "default")).items:
                with contextlib.suppress(NotFound):
                    if pod.deleting:
                        await stage.api.delete(Pod, pod.name, "default", grace_period_seconds=0)
                    elif not pod.finished:
                        failed = {"status": {"phase": "Failed"}}
                        await stage.api.patch(Pod, pod.name, failed, "default", subresource="status")
        assert (await pods(stage))["a"].finished
        await add_node(stage, "b")
        assert "b" in await pods(stage)
        assert not any(task.done() for task in working)

    play(story)


@pytest.mark.parametrize("what", ["set", "nodes"])
def test_nothing_is_kept_of_pods_that_failed_once_their_set_or_their_nodes_are_gone(play: Play, what: str):
    async def story(stage: ControllerStage):
        controller = stage.make(DaemonSetController)
        working = asyncio.create_task(controller.run())
        names = [f"node-{number}" for number in range(9)]
        for name in names:
            await add_node(stage, name)
        daemon_set = await add_set(stage)
        await pods(stage)
        for pod in (await stage.api.list(Pod, "default")).items:
            failed = {"status": {"phase": "Failed"}}
            await stage.api.patch(Pod, pod.name, failed, "default", subresource="status")
        await asyncio.sleep(1)
        kept = [daemon_set.uid] if what == "set" else names
        assert set(remembered_words(controller)) & set(kept)
        for name in names if what == "nodes" else ():
            await stage.api.delete(Node, name)
        if what == "set":
            await stage.api.delete(DaemonSet, "d", "default")
        else:
            await asyncio.sleep(3600)
            await add_set(stage, "another")
        await asyncio.sleep(1)
        assert not set(remembered_words(controller)) & set(kept)
        assert not working.done()

    play(story)


def remembered_words(controller: DaemonSetController) -> list[str]:
    """What stands in the keys of what it remembers of failed pods."""
    backoffs: dict[tuple[str, str], object] = vars(controller)["_backoffs"]
    return [word for place in backoffs for word in place]
