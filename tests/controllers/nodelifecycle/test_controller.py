"""What a controller that died half-way has left is finished by the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.kube.objects import Node, Pod

Desk = Callable[[Any], Any]


def test_pods_of_a_silent_node_lose_their_readiness_also_when_somebody_else_declared_it_silent(desk: Desk):
    async def scene(desk: Any):
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await desk.api.create(Node, {"metadata": {"name": "n"}, "status": {"conditions": [unknown]}})
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        await desk.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await desk.api.patch(Pod, "p", ready, "default", subresource="status")
        task = asyncio.create_task(desk.make(NodeLifecycleController, grace_period=10.0).run())
        await asyncio.sleep(1)
        task.cancel()
        pod = await desk.api.get(Pod, "p", "default")
        assert [(c.status, c.reason) for c in pod.status.conditions if c.type == "Ready"] == [("False", "NodeNotReady")]

    desk(scene)
