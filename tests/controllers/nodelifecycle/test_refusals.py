"""What the API server refuses of a node or a pod keeps nothing else that is to be written of it waiting."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from refusals import WHY, refuse

from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.kube.errors import Forbidden
from mooring.kube.keys import NodeKey, PodKey
from mooring.kube.objects import Lease, Node, Pod
from mooring.simulation.parts.faulty_transport import Match, request

UNKNOWN = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
FORMER = "beta.kubernetes.io/os"
TAINTS, LABELS = request("PATCH", "nodes/n", "taints"), request("PATCH", "nodes/n", FORMER)


async def silent_node(stage: ControllerStage) -> NodeLifecycleController:
    labels = {"kubernetes.io/os": "linux"}
    await stage.api.create(
        Node, {"metadata": {"name": "n", "labels": labels}, "status": {"conditions": [UNKNOWN]}}
    )
    return stage.make(NodeLifecycleController, grace_period=10.0)


async def refused(stage: ControllerStage, controller: Any, match: Match, key: Any) -> None:
    await stage.fill(controller, Node, Lease, Pod)
    refuse(stage, match)
    with pytest.raises(Forbidden, match=WHY):
        await controller.reconcile(key)


def test_a_node_whose_labels_may_not_be_written_is_tainted(play: Play):
    async def story(stage: ControllerStage):
        await refused(stage, await silent_node(stage), LABELS, NodeKey("n"))
        assert (await stage.api.get(Node, "n")).spec.taints

    play(story)


def test_a_node_that_may_not_be_tainted_gets_its_labels(play: Play):
    async def story(stage: ControllerStage):
        await refused(stage, await silent_node(stage), TAINTS, NodeKey("n"))
        assert (await stage.api.get(Node, "n")).metadata.labels[FORMER] == "linux"

    play(story)


def test_a_pod_that_may_not_be_shown_as_not_ready_is_evicted(play: Play):
    async def story(stage: ControllerStage):
        controller = await silent_node(stage)
        unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
        await stage.api.patch(Node, "n", {"spec": {"taints": [unreachable]}})
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        tolerates_for_no_time = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        spec["tolerations"] = [{"key": unreachable["key"], **tolerates_for_no_time}]
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await stage.api.patch(Pod, "p", {"status": ready}, "default", subresource="status")
        not_ready = request("PATCH", "pods/p/status", "NodeNotReady")
        await refused(stage, controller, not_ready, PodKey("default/p"))
        assert (await stage.api.get(Pod, "p", "default")).deleting

    play(story)
