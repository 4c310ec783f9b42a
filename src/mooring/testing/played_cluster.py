"""A cluster in this process: the API server on a port of loopback, the controllers, and nodes that are only
played.

It needs no root and is there in a part of a second. The API server is the production one, with its data on
disk; so are the controllers and the node agents. What is played are processes, mounts, power, and the default
class of disks.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

from mooring.apiserver.process import Running, serve
from mooring.cli.controllers import FACTORIES, Settings, run_controllers
from mooring.cluster.options import NODE
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.kube.client import Client
from mooring.kube.objects import Node, Pod, StorageClass
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.times import wall_clock
from mooring.kube.transport import InProcess
from mooring.simulation.parts.array_plugin import DISK, Array
from mooring.testing.cluster import FAULTS, Cluster
from mooring.testing.loop_thread import LoopThread
from mooring.testing.options import Options
from mooring.testing.played_node import PlayedNode
from mooring.testing.played_plugins import of_controllers, of_nodes
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.plugin_manager import PluginManager

READY_S = 30.0
ALL_CONTROLLERS = tuple(name for name in FACTORIES if name != "fencing")
"""There are no mechanisms to fence a played node with."""
CLASS = "played-disk"
DEFAULT_CLASS: Mapping[str, Any] = {
    "metadata": {
        "name": CLASS,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": DISK,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}


@dataclass(frozen=True)
class _Settings(Settings):
    """With the disks of the played array."""

    array: Array | None = None

    def plugins(self, client: Client) -> PluginManager:
        assert self.array is not None
        host = ControllerVolumeHost(self.now, self.plugin_settings, client, client.check_leading)
        return of_controllers(self.array, host)


class PlayedCluster(Cluster):
    """Made by `in_process`."""

    def __init__(self, thread: LoopThread, options: Options, data_dir: Path) -> None:
        super().__init__(thread, options, data_dir)
        self._nodes: dict[str, PlayedNode] = {}

    @property
    def nodes(self) -> Sequence[str]:
        return tuple(self._nodes)

    def exit(self, pod: str, code: int = 0, namespace: str = "default") -> None:
        """The containers of a pod end by themselves with this exit code, as those of a Job do. Raises
        LookupError for a pod that does not run on one of the nodes."""
        self._thread.run(self._exit(pod, code, namespace))

    async def _exit(self, name: str, code: int, namespace: str) -> None:
        client = self._admin()
        pod = await client.find(Pod, name, namespace)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or pod.uid not in dict(node.runtime.running()):
            raise LookupError(f"no container of pod {namespace}/{name} runs")
        node.runtime.exit(pod.uid, code)

    def cut(self, node: str) -> None:
        self._thread.run(self._cut(node, True))

    def heal(self, node: str) -> None:
        self._thread.run(self._cut(node, False))

    async def _cut(self, node: str, cut: bool) -> None:
        self._node(node).wire.down = cut

    def kill(self, node: str) -> None:
        self._thread.run(self._kill(node))

    async def _kill(self, name: str) -> None:
        node = self._node(name)
        if not node.on:
            raise ValueError(f"{name} is off")
        await node.power_off()

    def start(self, node: str) -> None:
        self._thread.run(self._start(node))

    async def _start(self, name: str) -> None:
        node = self._node(name)
        if node.on:
            raise ValueError(f"{name} is on")
        node.power_on()

    def _node(self, name: str) -> PlayedNode:
        if name not in self._nodes:
            raise ValueError(f"no node {name!r} here: there are {', '.join(self._nodes) or 'none'}")
        return self._nodes[name]

    def _admin(self) -> Client:
        return Client(InProcess(self._running.server.call, self._running.tokens.admin()))

    # --- its life, on its loop

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncGenerator[None]:
        """Everything runs, and the nodes are Ready, within the context."""
        self._running: Running = await serve(data_dir=self.data_dir / "apiserver", kubeconfig=self.kubeconfig)
        array = Array()
        work: asyncio.Task[None] | None = None
        try:
            client = self._admin()
            if names := self._controllers():
                await self._install(client)
                work = asyncio.create_task(
                    run_controllers(names, client, self._settings(array), leader_elect=False)
                )
            await self._boot(array)
            yield
        finally:
            await self._hang_up()
            for node in self._nodes.values():
                if node.on:
                    await node.agent_dies()
            if work is not None:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            await self._running.close()

    def _controllers(self) -> Sequence[str]:
        given = self.options.controllers
        return ALL_CONTROLLERS if given is None else tuple(given)

    def _settings(self, array: Array) -> Settings:
        csi = {name: self.options.address(name, f"{NODE}1") for name in self.options.csi}
        faults = {"faultfile": str(self.data_dir / FAULTS)} if csi else {}
        return _Settings(
            wall_clock,
            SystemRandom(),
            {CSI_PLUGIN: {**csi, **faults}},
            node_monitor_grace_period=self.options.node_monitor_grace_period,
            array=array,
        )

    async def _install(self, client: Client) -> None:
        for definition in (*DEFINITIONS, *FENCING_KINDS):
            await client.create(CustomResourceDefinition, definition)
        await client.create(StorageClass, DEFAULT_CLASS)

    async def _boot(self, array: Array) -> None:
        server = self._running.server
        for number in range(1, self.options.nodes + 1):
            name = f"{NODE}{number}"
            root = self.data_dir / "nodes" / name
            node = PlayedNode(name, server, array, root, wall_clock, of_nodes(array))
            node.lease_duration_s = max(1.0, self.options.node_monitor_grace_period)
            self._nodes[name] = node
            node.start_agent()
        async with asyncio.timeout(READY_S):
            while sum(node.ready == "True" for node in (await self._admin().list(Node)).items) < len(
                self._nodes
            ):
                for node in self._nodes.values():
                    node.check()
                await asyncio.sleep(0.01)


@contextlib.contextmanager
def in_process(options: Options | None = None) -> Generator[PlayedCluster]:
    """A cluster in this process, until the context is left."""
    with (
        tempfile.TemporaryDirectory(prefix="mooring-") as directory,
        LoopThread("mooring") as thread,
    ):
        cluster = PlayedCluster(thread, options or Options(), Path(directory))
        context = cluster.standing()
        thread.run(context.__aenter__())
        try:
            yield cluster
        finally:
            thread.run(context.__aexit__(None, None, None))
