"""C5 and C6: a real node agent and real controllers; the text has their writes and reads of Node and
VolumeAttachment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from in_process_cluster import InProcessCluster
from tests.conftest import virtual_now
from tests.golden.recorder import Recorder
from tests.golden.scene import Scene

from mooring.kube.client import Client
from mooring.kube.objects import Node, Pod
from mooring.node.volumes.manager import VolumeManager
from mooring.simulation.cluster.controllers import ATTACHING
from mooring.simulation.parts.faulty_transport import request


class AgentScene(Scene):
    """A cluster of one node, n0, and a claim of a disk d1."""

    def __init__(self) -> None:
        self._root = TemporaryDirectory()
        self.cluster = InProcessCluster(Path(self._root.name), virtual_now)
        self.recorder = Recorder(heartbeats=False)

    async def begin(self) -> None:
        await self.cluster.start(nodes=1)
        await self.cluster.claim("c")
        await self.cluster.until(lambda: self.cluster.array.disks)
        self.recorder.aliases = dict.fromkeys(self.cluster.array.disks, "d1")
        self.recorder.know("nodes", await self.cluster.api.get(Node, "n0"))
        self.recorder.sender(self.cluster.machines["n0"].wire, "n0")
        for process in self.cluster.processes:
            if len(process.controllers) == len(ATTACHING):
                self.recorder.sender(process.wire, "controller", reads=False)
                break

    def end(self) -> None:
        self._root.cleanup()

    async def runs(self, pod: str) -> None:
        await self.cluster.create_pod(pod, "c", nodeName="n0")
        await self.cluster.until(lambda: self.cluster.running(pod))

    async def truths(self) -> AsyncIterator[str]:
        node = await self.cluster.api.find(Node, "n0")
        truths = ["attached" if self.cluster.array.attached else "not attached"]
        truths += ["in use"] if node is not None and node.status.volumes_in_use else []
        truths += ["mounted"] if self.cluster.array.mounted else []
        if self.cluster.array.mounted and node is not None and not node.status.volumes_in_use:
            truths.append("HARM: its Node says that it is not in use, so a detach may follow")
        if any(what == "detach" for what, _, _ in self.cluster.array.refused):
            truths.append("HARM: a detach was asked for under the mount (this storage refused it)")
        yield f"d1 on n0: {', '.join(truths)}"


speaks_first = False
"""Whether an agent that starts writes its first status before it has reconstructed."""


async def restarted_agent(scene: AgentScene) -> None:
    cluster, machine = scene.cluster, scene.cluster.machines["n0"]
    await scene.step("A pod runs on n0, with d1")
    await scene.runs("p")
    await scene.step("n0's agent is killed; the pod and its mount stay; the pod is removed by force")
    await machine.agent_dies()
    cluster.array.unmount_s["n0"] = 20.0
    await cluster.api.delete(Pod, "p", "default", grace_period_seconds=0)
    await scene.step("The agent starts again; an unmount takes it 20 s")
    with pytest.MonkeyPatch.context() as patch:
        if speaks_first:
            patch.setattr(VolumeManager, "reconstruct", _later)
        machine.restart_agent()
        await asyncio.sleep(15)
        await scene.step("15 s later")
        await asyncio.sleep(15)


async def _later(self: VolumeManager) -> None:
    """Whatever is mounted will be found after the first status."""


async def late_status(scene: AgentScene) -> None:
    cluster, machine = scene.cluster, scene.cluster.machines["n0"]
    await scene.step("A pod runs on n0, with d1")
    await scene.runs("p")
    await scene.step(
        "The pod ends. The agent writes that nothing is in use; the write is on its way for long"
    )
    late = machine.wire.late(request("PATCH", "/nodes/n0/status", '"volumesInUse":[]'))
    await cluster.api.delete(Pod, "p", "default")
    await late.arrived.wait()
    await scene.step("Another pod comes to n0: the agent publishes d1 again and mounts it")
    await scene.runs("q")
    await scene.step("The late write arrives")
    await late.deliver()


def writes_status_without_version(patch: pytest.MonkeyPatch) -> None:
    whole = Client.patch

    async def weak(self: Client, kind: Any, *args: Any, **kw: Any) -> Any:
        if kind is Node and kw.get("strategy") == "strategic":
            kw["resource_version"] = None
        return await whole(self, kind, *args, **kw)

    patch.setattr(Client, "patch", weak)
