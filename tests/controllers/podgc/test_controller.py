"""A pod is removed after live reads only."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from controller_stage import ControllerStage, Play, refuse_deletions

from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.controllers.podgc.controller import PodGCController
from mooring.controllers.podgc.decide import QUARANTINE_S
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.objects import Event, Node, Pod
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import NodeFence
from mooring.volumes.out_of_service import SEEN, TAINT


async def doomed(stage: ControllerStage) -> tuple[Any, Pod]:
    """A terminating pod on a silent node that is out of service, as the controller's caches have it."""
    taint = {
        "key": TAINT,
        "effect": "NoExecute",
        "value": "nodeshutdown",
        "timeAdded": "2030-01-01T00:00:00Z",
    }
    status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    node = await stage.api.create(
        Node, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}, "status": status}
    )
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
    await stage.api.delete(Pod, "p", "default")
    pod = await stage.api.get(Pod, "p", "default")
    controller = stage.make(PodGCController)
    controller.cache(Node).accept(node)
    controller.cache(Pod).accept(pod)
    return controller, pod


def test_a_terminating_pod_of_a_node_out_of_service_is_removed(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await doomed(stage)
        await controller.reconcile("default/p")
        assert await stage.api.find(Pod, "p", "default") is None

    play(story)


def test_a_node_that_has_reported_meanwhile_keeps_its_pod_although_the_cache_does_not_know(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await doomed(stage)
        seen = {"metadata": {"annotations": {SEEN: "2030-01-01T00:00:00Z"}}}
        await stage.api.patch(Node, "n", seen, subresource="status")
        await controller.reconcile("default/p")
        assert await stage.api.find(Pod, "p", "default") is not None

    play(story)


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_pod_that_was_written_since_it_was_judged_is_not_removed(play: Play, phase: str):
    async def story(stage: ControllerStage):
        controller, _ = await doomed(stage)
        before = {"status": {"phase": phase}}
        controller.cache(Pod).accept(await stage.api.patch(Pod, "p", before, "default", subresource="status"))
        word = {"status": {"message": "its node agent says that it runs"}}
        await stage.api.patch(Pod, "p", word, "default", subresource="status")
        with pytest.raises(Conflict):
            await controller.reconcile("default/p")
        assert (await stage.api.get(Pod, "p", "default")).status.phase == phase

    play(story)


def test_a_pod_that_was_marked_and_is_gone_is_not_marked_again(play: Play):
    """Another client has removed it between the two writes, and the cache stays stale (S19)."""

    async def story(stage: ControllerStage):
        controller, _ = await doomed(stage)
        remove, gone = controller.client.delete, stage.api.delete

        async def too_late(*about: Any, **conditions: Any) -> None:
            await gone(Pod, "p", "default", grace_period_seconds=0)
            await remove(*about, **conditions)

        controller.client.delete = too_late
        with pytest.raises(NotFound):
            await controller.reconcile("default/p")
        controller.client.delete = remove
        stage.wire.sent.clear()
        with pytest.raises(NotFound):
            await controller.reconcile("default/p")
        assert [each for each in stage.wire.sent if each.startswith("PATCH")] == []

    play(story)


def test_of_too_many_pods_that_have_ended_the_oldest_go(play: Play):
    async def story(stage: ControllerStage):
        controller = stage.make(PodGCController, most_ended=2)
        working = asyncio.create_task(controller.run())
        for name in ("a", "b", "c", "d"):
            spec = {"containers": [{"name": "c", "image": "i"}]}
            await stage.api.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")
            phase = {"status": {"phase": "Running" if name == "a" else "Succeeded"}}
            await stage.api.patch(Pod, name, phase, "default", subresource="status")
            await asyncio.sleep(2)
        assert {pod.name for pod in (await stage.api.list(Pod, "default")).items} == {"a", "c", "d"}
        assert not working.done()

    play(story)


def test_one_that_may_not_be_removed_keeps_no_other_from_going(play: Play):
    """Neither one of those that are too many, nor one whose node is out of service."""

    async def story(stage: ControllerStage):
        await doomed(stage)
        await stage.api.patch(Pod, "p", {"status": {"phase": "Failed"}}, "default", subresource="status")
        for name in ("a", "b", "c"):
            spec = {"containers": [{"name": "c", "image": "i"}]}
            await stage.api.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")
            ended = {"status": {"phase": "Succeeded"}}
            await stage.api.patch(Pod, name, ended, "default", subresource="status")
            await asyncio.sleep(2)
        refuse_deletions(stage.api, "a")
        working = asyncio.create_task(stage.make(PodGCController, most_ended=1).run())
        await asyncio.sleep(60)
        assert {pod.name for pod in (await stage.api.list(Pod, "default")).items} == {"a", "c"}
        assert not working.done()

    play(story)


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_another_pod_of_that_name_is_not_removed_in_its_place(play: Play, phase: str):
    async def story(stage: ControllerStage):
        controller, pod = await doomed(stage)
        status = {"status": {"phase": phase}}
        controller.cache(Pod).accept(await stage.api.patch(Pod, "p", status, "default", subresource="status"))
        await stage.api.delete(Pod, "p", "default", uid=pod.uid, grace_period_seconds=0)
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        with suppress(NotFound, Conflict):
            await controller.reconcile("default/p")
        assert await stage.api.find(Pod, "p", "default") is not None

    play(story)


def test_pods_of_a_node_that_is_gone_are_removed_after_forty_seconds_of_absence(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await doomed(stage)
        working = asyncio.create_task(controller.run())
        await stage.api.patch(Node, "n", {"spec": {"taints": None}})
        await stage.api.delete(Node, "n")
        await asyncio.sleep(35)
        assert await stage.api.find(Pod, "p", "default") is not None
        await asyncio.sleep(10)
        assert await stage.api.find(Pod, "p", "default") is None
        assert not working.done()

    play(story)


def test_what_is_risked_is_said_of_a_pod_that_is_removed_with_its_node(play: Play):
    async def story(stage: ControllerStage):
        await doomed(stage)
        working = asyncio.create_task(stage.make(PodGCController).run())
        await stage.api.delete(Node, "n")
        await asyncio.sleep(60)
        said = [
            each.message
            for each in (await stage.api.list(Event)).items
            if each.reason == "RemovedWithItsNode"
        ]
        assert len(said) == 1
        assert "a second pod of this name may run" in said[0]
        working.cancel()

    play(story)


def test_where_the_deletion_of_a_node_confirms_nothing_its_pods_stay(play: Play):
    async def story(stage: ControllerStage):
        await doomed(stage)
        working = asyncio.create_task(stage.make(PodGCController, deletion_confirms=False).run())
        await stage.api.delete(Node, "n")
        await asyncio.sleep(600)
        assert await stage.api.find(Pod, "p", "default") is not None
        working.cancel()

    play(story)


def test_a_pod_that_is_written_while_its_node_is_absent_is_given_the_whole_time_again(play: Play):
    """Its agent is alive, and about to create its Node anew: what the agent writes of its pods before that
    must not be taken for the last report of a dead node."""

    async def story(stage: ControllerStage):
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        pod = await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        controller = stage.make(PodGCController)
        controller.cache(Pod).accept(pod)
        await controller.reconcile("default/p")
        await asyncio.sleep(50)
        word = {"status": {"message": "its node agent says that it runs"}}
        controller.cache(Pod).accept(await stage.api.patch(Pod, "p", word, "default", subresource="status"))
        await controller.reconcile("default/p")
        assert (await stage.api.get(Pod, "p", "default")).status.phase == "Pending"
        await asyncio.sleep(50)
        await controller.reconcile("default/p")
        assert await stage.api.find(Pod, "p", "default") is None

    play(story)


@pytest.mark.parametrize("deletion_confirms", [False, True])
def test_a_pod_of_a_node_that_is_gone_waits_for_its_fence(play: Play, deletion_confirms: bool):
    async def story(stage: ControllerStage):
        for body in FENCING_KINDS:
            await stage.api.create(CustomResourceDefinition, body)
        fence = {"metadata": {"name": "f"}, "spec": {"nodeName": "n", "nodeUID": "u"}}
        await stage.api.create(NodeFence, fence)
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        controller = stage.make(PodGCController, deletion_confirms=deletion_confirms)
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(QUARANTINE_S * 4)
        assert await stage.api.find(Pod, "p", "default") is not None
        shown = {"token": "t", "outcome": "Fenced", "scope": "Power", "absent": True}
        status = {"phase": "Fenced", "proof": "t", "attempts": [shown]}
        later = {"metadata": {"name": "g"}, "spec": fence["spec"]}
        await stage.api.create(NodeFence, later)
        await stage.api.patch(NodeFence, "g", {"status": status}, subresource="status")
        await asyncio.sleep(QUARANTINE_S * 2)
        assert await stage.api.find(Pod, "p", "default") is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story)


@pytest.mark.parametrize(("deletion_confirms", "stays"), [(True, False), (False, True)])
def test_a_pod_that_was_bound_to_a_node_when_that_was_gone_goes_by_the_deletion_once_the_machine_is_off(
    play: Play, deletion_confirms: bool, stays: bool
):
    """As by a scheduler that was late: of a pod that is younger than the fence that says nothing, and nothing
    else would end the wait for it."""

    async def story(stage: ControllerStage):
        for body in FENCING_KINDS:
            await stage.api.create(CustomResourceDefinition, body)
        await stage.api.create(
            NodeFence, {"metadata": {"name": "f"}, "spec": {"nodeName": "n", "nodeUID": "u"}}
        )
        await asyncio.sleep(2)
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        controller = stage.make(PodGCController, deletion_confirms=deletion_confirms)
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(QUARANTINE_S * 4)
        assert await stage.api.find(Pod, "p", "default") is not None
        shown = {"token": "t", "outcome": "Fenced", "scope": "Power", "absent": True}
        status = {"phase": "Fenced", "proof": "t", "attempts": [shown]}
        await stage.api.patch(NodeFence, "f", {"status": status}, subresource="status")
        await asyncio.sleep(QUARANTINE_S * 2)
        assert (await stage.api.find(Pod, "p", "default") is not None) is stays
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story)
