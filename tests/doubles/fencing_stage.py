"""A stage on which nodes are lost and fenced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import waiting
from controller_stage import ControllerStage
from played_mechanism import Machines, PlayedMechanism

from mooring.controllers.fencing.controller import FencingController
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.controllers.fencing.silence import LEASES
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import Lease, Node, VolumeAttachment
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.kube.times import format_micro_time, format_time
from mooring.volumes.names import NODE_UID, STATUS_WRITE


class FencingStage(ControllerStage):
    """Machines that are switched off by played mechanisms; Nodes that a test reports for."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.machines = Machines()
        self.bmc = PlayedMechanism(self.machines)
        self.strip = PlayedMechanism(self.machines, kind="other")
        self._reports = 0

    async def install(self) -> None:
        for body in FENCING_KINDS:
            await self.api.create(CustomResourceDefinition, body)

    async def node(self, name: str, boot: str = "boot-1", **labels: str) -> Node:
        """A node that reports."""
        await self.api.create(Node, {"metadata": {"name": name, "labels": labels}})
        return await self.report(name, boot)

    async def report(
        self,
        name: str,
        boot: str = "boot-1",
        ready: str = "True",
        *,
        by_agent: bool = True,
        machine: str = "",
    ) -> Node:
        self._reports += by_agent
        mark = {"metadata": {"annotations": {STATUS_WRITE: str(self._reports)}}} if by_agent else {}
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": format_time(self.now())}
        status = {
            "conditions": [condition],
            "nodeInfo": {"bootID": boot, **({"systemUUID": machine} if machine else {})},
            "volumesInUse": [f"x/y/{name}-disk"],
        }
        return await self.api.patch(Node, name, {**mark, "status": status}, subresource="status")

    async def silent(self, name: str, boot: str = "boot-1") -> Node:
        """Its Ready is Unknown, as the node life-cycle controller writes it."""
        return await self.report(name, boot, "Unknown", by_agent=False)

    async def renew(self, name: str) -> None:
        """Its agent renews the node's Lease."""
        renewed = {"spec": {"renewTime": format_micro_time(self.now())}}
        with contextlib.suppress(AlreadyExists):
            await self.api.create(Lease, {"metadata": {"name": name}, "spec": {}}, LEASES)
        await self.api.patch(Lease, name, renewed, LEASES)

    async def mechanism(self, name: str = "bmc", kind: str = "played", **spec: Any) -> FenceMechanism:
        return await self.api.create(
            FenceMechanism, {"metadata": {"name": name}, "spec": {"type": kind, **spec}}
        )

    async def policy(self, *ladder: Any, name: str = "policy", **spec: Any) -> FencePolicy:
        rungs = [{"mechanism": each} if isinstance(each, str) else each for each in ladder]
        return await self.api.create(
            FencePolicy, {"metadata": {"name": name}, "spec": {"ladder": rungs, **spec}}
        )

    async def pause(self, why: str) -> None:
        await self.api.patch(FencePolicy, "policy", {"spec": {"paused": why}})

    async def attachment(self, node: Node, name: str = "va") -> VolumeAttachment:
        body = {
            "metadata": {"name": name, "annotations": {NODE_UID: node.uid}},
            "spec": {
                "attacher": "a",
                "nodeName": node.name,
                "source": {"persistentVolumeName": f"pv-{name}"},
            },
        }
        return await self.api.create(VolumeAttachment, body)

    def controller(self, client: Any = None) -> FencingController:
        kinds = {"played": self.bmc, "other": self.strip}
        return self.make(
            lambda api, **options: FencingController(api, kinds, self.plugins(), **options), client
        )

    @contextlib.asynccontextmanager
    async def running(self, client: Any = None) -> AsyncIterator[FencingController]:
        controller = self.controller(client)
        task = asyncio.create_task(controller.run())
        try:
            yield controller
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def fence(self, node: str) -> NodeFence | None:
        found = [each for each in (await self.api.list(NodeFence)).items if each.spec.node_name == node]
        return max(found, key=lambda each: int(each.metadata.resource_version), default=None)

    async def until(self, what: Callable[[], Awaitable[Any]], seconds: float = 300) -> Any:
        """Waits for it, in virtual time."""
        return await waiting.until(what, "it holds", seconds=seconds, every_s=0.2)

    async def until_phase(self, node: str, phase: str, seconds: float = 300) -> NodeFence:
        async def reached() -> NodeFence | None:
            fence = await self.fence(node)
            return fence if fence is not None and fence.status.phase == phase else None

        return await self.until(reached, seconds)
