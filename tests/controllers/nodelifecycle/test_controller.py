"""What a controller that died half-way has left is finished by the next one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.nodelifecycle.controller import LEASES, NodeLifecycleController
from mooring.kube.errors import Unreachable
from mooring.kube.keys import NodeKey, PodKey
from mooring.kube.objects import Lease, Node, Pod
from mooring.kube.times import format_time
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.names import STATUS_WRITE

READY = {"type": "Ready", "status": "True"}


def test_pods_of_a_silent_node_lose_their_readiness_also_when_somebody_else_declared_it_silent(play: Play):
    async def story(stage: ControllerStage):
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await stage.api.create(Node, {"metadata": {"name": "n"}, "status": {"conditions": [unknown]}})
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await stage.api.patch(Pod, "p", ready, "default", subresource="status")
        task = asyncio.create_task(stage.make(NodeLifecycleController, grace_period=10.0).run())
        await asyncio.sleep(1)
        task.cancel()
        pod = await stage.api.get(Pod, "p", "default")
        assert [(c.status, c.reason) for c in pod.status.conditions if c.type == "Ready"] == [
            ("False", "NodeNotReady")
        ]

    play(story)


def test_a_report_is_a_sign_of_life_also_at_a_time_that_its_clock_has_shown_before(play: Play):
    """32005084 of `fencing.yaml`: a clock was set back, and a report had the heartbeat of the last one that
    was seen; its agent and the controller contradicted one another at each answer."""

    async def story(stage: ControllerStage):
        beat = format_time(stage.now())
        ready = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]}
        await stage.api.create(Node, {"metadata": {"name": "n", "annotations": {STATUS_WRITE: "one"}}})
        await stage.api.patch(Node, "n", {"status": ready}, subresource="status")
        task = asyncio.create_task(stage.make(NodeLifecycleController, grace_period=10.0).run())
        await asyncio.sleep(15)
        assert (await stage.api.get(Node, "n")).ready == "Unknown"
        report = {"metadata": {"annotations": {STATUS_WRITE: "two"}}, "status": ready}
        await stage.api.patch(Node, "n", report, subresource="status")
        await asyncio.sleep(1)
        assert (await stage.api.get(Node, "n")).ready == "True"
        task.cancel()

    play(story)


def test_no_node_is_silent_because_its_controller_was_paused(play: Play):
    """Its cache is as old as the pause: no watch runs here."""

    async def story(stage: ControllerStage):
        await stage.api.create(Node, {"metadata": {"name": "n"}})
        await stage.api.patch(Node, "n", {"status": {"conditions": [READY]}}, subresource="status")
        held = {"metadata": {"name": "n"}, "spec": {"renewTime": "2030-01-01T00:00:00.000000Z"}}
        lease = await stage.api.create(Lease, held, LEASES)
        controller = stage.make(NodeLifecycleController, grace_period=10.0)
        await stage.fill(controller, Node, Lease)
        await controller.reconcile(NodeKey("n"))
        await asyncio.sleep(60)
        await stage.api.revise(lease, {"spec": {"renewTime": "2030-01-01T00:01:00.000000Z"}})
        await controller.reconcile(NodeKey("n"))
        assert (await stage.api.get(Node, "n")).ready == "True"
        assert controller.queue.is_delayed(NodeKey("n"))
        await asyncio.sleep(10)
        await controller.reconcile(NodeKey("n"))
        assert (await stage.api.get(Node, "n")).ready == "Unknown"

    play(story)


@pytest.mark.parametrize(
    ("tolerated", "gone"), [(None, {0: True, 299: True}), (300, {0: False, 299: False, 301: True})]
)
def test_a_taint_of_a_clock_that_is_ahead_is_not_waited_for(
    play: Play, tolerated: int | None, gone: dict[int, bool]
):
    async def story(stage: ControllerStage):
        taint = {
            "key": "k",
            "effect": "NoExecute",
            "timeAdded": format_time(stage.now() + timedelta(hours=1)),
        }
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await stage.api.create(
            Node, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}, "status": ready}
        )
        tolerations = [
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": tolerated}
        ]
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        spec |= {"tolerations": tolerations} if tolerated else {}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        task = asyncio.create_task(stage.make(NodeLifecycleController, grace_period=7200.0).run())
        began = asyncio.get_running_loop().time()
        for after, expected in gone.items():
            await asyncio.sleep(began + after + 1 - asyncio.get_running_loop().time())
            assert (await stage.api.get(Pod, "p", "default")).deleting is expected
        task.cancel()

    play(story)


@pytest.mark.parametrize(
    ("tolerated", "gone"), [(None, {0: True, 299: True}), (300, {0: False, 299: False, 301: True})]
)
def test_a_pod_that_was_bound_by_a_clock_that_is_ahead_is_evicted_as_any_other(
    play: Play, tolerated: int | None, gone: dict[int, bool]
):
    async def story(stage: ControllerStage):
        taint = {"key": "k", "effect": "NoExecute", "timeAdded": format_time(stage.now())}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await stage.api.create(
            Node, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}, "status": ready}
        )
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        kept = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": tolerated}
        spec |= {"tolerations": [kept]} if tolerated else {}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        bound = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": format_time(stage.now() + timedelta(hours=1)),
        }
        await stage.api.patch(Pod, "p", {"status": {"conditions": [bound]}}, "default", subresource="status")
        task = asyncio.create_task(stage.make(NodeLifecycleController, grace_period=7200.0).run())
        began = asyncio.get_running_loop().time()
        for after, expected in gone.items():
            await asyncio.sleep(began + after + 1 - asyncio.get_running_loop().time())
            assert (await stage.api.get(Pod, "p", "default")).deleting is expected
        task.cancel()

    play(story)


def test_a_pod_that_is_deleted_while_it_is_shown_as_not_ready_is_not_evicted_too(play: Play):
    async def story(stage: ControllerStage):
        silent = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        taint = {"key": "k", "effect": "NoExecute"}
        await stage.api.create(
            Node, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}, "status": silent}
        )
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await stage.api.patch(Pod, "p", ready, "default", subresource="status")
        controller = stage.make(NodeLifecycleController, grace_period=10.0)
        revise = controller.client.revise

        async def meanwhile(pod: Any, *body: Any, **options: Any) -> Any:
            if isinstance(pod, Pod) and not (await stage.api.get(Pod, "p", "default")).deleting:
                await stage.api.delete(Pod, "p", "default")
            return await revise(pod, *body, **options)

        controller.client.revise = meanwhile
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(5)
        task.cancel()
        pod = await stage.api.get(Pod, "p", "default")
        assert pod.deleting
        assert [each.type for each in pod.status.conditions if each.status == "False"] == ["Ready"]
        assert "DisruptionTarget" not in {each.type for each in pod.status.conditions}

    play(story)


KEPT = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


async def is_gone(stage: ControllerStage, times: dict[int, bool], **taint: str) -> None:
    """A pod that tolerates the taint `k` for 300 s is bound to its node a second before the controller runs.
    `times`: whether it must be gone after so many seconds."""
    taints = [{"key": "k", "effect": "NoExecute", **taint}]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await stage.api.create(Node, {"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": ready})
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [KEPT]}
    await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
    body = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n"}}
    await stage.api.request("POST", "/api/v1/namespaces/default/pods/p/binding", body=body)
    await asyncio.sleep(1)
    task = asyncio.create_task(stage.make(NodeLifecycleController, grace_period=7200.0).run())
    began = asyncio.get_running_loop().time()
    for after, expected in times.items():
        await asyncio.sleep(began + after - asyncio.get_running_loop().time())
        assert (await stage.api.get(Pod, "p", "default")).deleting is expected
    task.cancel()


def test_a_taint_without_a_time_counts_from_when_it_is_seen(play: Play):
    """That of `kubectl taint`: a pod that tolerates it for a while was evicted at once."""

    async def story(stage: ControllerStage):
        await is_gone(stage, {1: False, 290: False, 301: True})

    play(story)


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_a_pod_may_stay_for_as_long_as_it_tolerates_the_taint_whatever_the_clock_shows(
    play: Play, hours: int
):
    """Of a controller whose clock is an hour ahead, or was set."""

    async def story(stage: ControllerStage):
        now = stage.now
        added = format_time(now())
        await asyncio.sleep(1)
        stage.now = lambda: now() + timedelta(hours=hours)
        await is_gone(stage, {1: False, 290: False, 301: True}, timeAdded=added)

    play(story)


def test_a_pod_that_comes_after_a_taint_tolerates_it_from_then_on(play: Play):
    """Otherwise it would be evicted at once, and so would the next one, for ever."""

    async def story(stage: ControllerStage):
        long_ago = format_time(stage.now() - timedelta(hours=1))
        await is_gone(stage, {1: False, 290: False, 301: True}, timeAdded=long_ago)

    play(story)


def test_a_node_gets_its_former_labels_and_its_taints_in_one_look(play: Play):
    """The second write is upon the version of the first: found by the simulation (S19)."""

    async def story(stage: ControllerStage):
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}
        status = {"conditions": [{"type": "Ready", "status": "False"}]}
        node = await stage.api.create(Node, {"metadata": {"name": "n", "labels": labels}, "status": status})
        controller = stage.make(NodeLifecycleController, grace_period=10.0)
        controller.cache(Node).accept(node)
        await controller.reconcile(NodeKey("n"))
        live = await stage.api.get(Node, "n")
        former = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}
        assert live.metadata.labels == labels | former
        assert {each.key for each in live.spec.taints} == {"node.kubernetes.io/not-ready"}

    play(story)


def test_a_pod_is_not_evicted_by_a_taint_that_only_a_late_cache_still_shows(play: Play):
    """Found by the simulation: each pod that was placed on the healthy node was evicted at once."""

    async def story(stage: ControllerStage):
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        body = {"metadata": {"name": "n"}, "spec": {"taints": [taint]}, "status": ready}
        tainted = await stage.api.create(Node, body)
        await stage.api.patch(Node, "n", {"spec": {"taints": None}})
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        pod = await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        controller = stage.make(NodeLifecycleController, grace_period=7200.0)
        controller.cache(Node).accept(tainted)
        controller.cache(Pod).accept(pod)
        await controller.reconcile(PodKey(pod.key))
        assert await stage.api.get(Pod, "p", "default") == pod
        assert controller.cache(Node).get("n").spec.taints == ()

    play(story)


async def of_a_pod_under_a_taint(stage: ControllerStage) -> NodeLifecycleController:
    """A controller that knows the pod, which does not tolerate the taint of its node."""
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    body = {"metadata": {"name": "n"}, "spec": {"taints": [taint]}, "status": ready}
    await stage.api.create(Node, body)
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
    controller = stage.make(NodeLifecycleController, grace_period=7200.0)
    await stage.fill(controller, Node, Pod)
    return controller


def test_a_pod_is_evicted_once_though_the_cache_does_not_show_its_deletion_yet(play: Play):
    """The controller's own write of the pod's condition has it look at the pod again: found by the simulation
    (S33)."""

    async def story(stage: ControllerStage):
        controller = await of_a_pod_under_a_taint(stage)
        await controller.reconcile(PodKey("default/p"))
        sent = [each for each in stage.wire.sent if "/pods/p" in each]
        await controller.reconcile(PodKey("default/p"))
        assert [each for each in stage.wire.sent if "/pods/p" in each] == sent
        assert "DELETE /api/v1/namespaces/default/pods/p" in sent

    play(story)


def test_an_eviction_that_was_not_answered_is_asked_for_again(play: Play):
    async def story(stage: ControllerStage):
        controller = await of_a_pod_under_a_taint(stage)
        stage.wire.lose(request("DELETE", "/pods/p"))
        with pytest.raises(Unreachable):
            await controller.reconcile(PodKey("default/p"))
        await controller.reconcile(PodKey("default/p"))
        assert (await stage.api.get(Pod, "p", "default")).deleting

    play(story)


def test_a_pod_is_not_evicted_whose_node_lost_the_taint_while_that_was_written_on_the_pod(play: Play):
    """The answer to that may be seconds away."""

    async def story(stage: ControllerStage):
        controller = await of_a_pod_under_a_taint(stage)
        held = stage.wire.hold(request("PATCH", "pods/p/status"))
        step = asyncio.create_task(controller.reconcile(PodKey("default/p")))
        await held.arrived.wait()
        controller.cache(Node).accept(await stage.api.patch(Node, "n", {"spec": {"taints": None}}))
        held.release()
        await step
        assert not (await stage.api.get(Pod, "p", "default")).deleting

    play(story)
