"""The cluster itself: API server, controllers and machines, started in order and taken down in order.

Guarantees: one `up` for a data directory; what dies is started again; when `stop` has returned, no process,
mount or loop device of this cluster is left on the machine; all state is in the data directory and the next
start resumes there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.apiserver.process import HOST
from mooring.cluster import command_lines, control, fencing, instance_power, machine_states, manifests, orders
from mooring.cluster.cloud import CloudParts, drivers
from mooring.cluster.csi import CSIDrivers
from mooring.cluster.holding import (
    PortTaken,
    choose_port,
    hand_out,
    hold,
    is_free,
    release,
    remember,
    with_free_port,
)
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import kinds
from mooring.cluster.machines.bmc import ipmi
from mooring.cluster.machines.bmc.bmcs import Bmcs, directory
from mooring.cluster.machines.bmc.inventory import Paths
from mooring.cluster.machines.bmc.machine_switch import MachineSwitch
from mooring.cluster.machines.boot_orders import run_directory
from mooring.cluster.machines.node_machine import NodeMachine
from mooring.cluster.node_machines import NodeMachines
from mooring.cluster.options import Options
from mooring.cluster.processes import Part
from mooring.cluster.storage import servers
from mooring.cluster.sweep import sweep
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, KubeError
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.mounts.blocking import blocking
from mooring.volumes.plugins.disk_array import DiskArray

READY_S = 30.0


@dataclass
class Cluster:
    """A running cluster. Use as `async with Cluster(...)`: leaving takes it down."""

    layout: Layout
    options: Options
    port: int = 0
    instead_of: int = 0
    """The usual port, where another program has that."""
    _lock: Any = None
    _apiserver: Part | None = None
    _controllers: Part | None = None
    _cloud: CloudParts | None = None
    _bmcs: Bmcs | None = None
    _nodes: NodeMachines = field(init=False)
    _storage: servers.Servers = field(init=False)
    _control: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def __post_init__(self) -> None:
        self._nodes = NodeMachines(self.layout, self.options, self.array, lambda: self._storage.addresses)
        self._storage = servers.Servers(self.layout, self._nodes.networks, self._storage_changed)

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def machines(self) -> Mapping[str, NodeMachine]:
        """By node."""
        return self._nodes.machines

    @property
    def array(self) -> DiskArray:
        """The disk array of this cluster."""
        return DiskArray(self.layout.array, self.options.mode)

    def client(self) -> Client:
        """A client with the admin's credentials."""
        return config.load(self.layout.kubeconfig)

    @property
    def parts(self) -> list[Part]:
        """API server and controllers, and the cloud if there is one."""
        parts = [part for part in (self._apiserver, self._controllers) if part is not None]
        return parts + (self._cloud.parts if self._cloud else [])

    @property
    def csi(self) -> CSIDrivers:
        """The user's drivers, and the cloud's if there is one."""
        return drivers(self.layout, self.options.csi) if self.options.cloud else self.options.csi

    async def start(self) -> None:
        """Returns when it is up. One that fails, or is cancelled, leaves nothing."""
        self.layout.make()
        self._lock = hold(self.layout)
        try:
            sweep(self.layout)  # what a killed `up` may have left
            await self._start()
        except asyncio.CancelledError:
            await self.stop()
            raise
        except BaseException:
            await self.stop(grace=0)
            raise

    async def _start(self) -> None:
        await blocking(kinds.check, self.options.machines)
        if self.options.bmc:
            ipmi.check()
        await blocking(self._nodes.plug)
        if self.options.cloud:
            self._cloud = CloudParts(self.layout, list(self.options.kinds), self.options.cloud)
            await self._cloud.start()
        await self._start_control_plane()
        await self._storage.start()
        await self._nodes.start(self.port, self.csi, self._cloud)
        switch = MachineSwitch(self.machines)
        if self._cloud is not None:
            power = instance_power.serving(self._cloud.power, self._cloud.nodes, switch)
            await self._control.enter_async_context(power)
        if self.options.bmc:
            self._bmcs = Bmcs(self.layout, switch)
            await self._bmcs.start()
        if self.options.fencing:
            await self._teach(self._install_fencing)
        await self._control.enter_async_context(control.serving(self.layout.control, self._obey))
        if self.options.kubeconfig_out:
            hand_out(self.layout.kubeconfig, self.options.kubeconfig_out)

    async def _start_control_plane(self) -> None:
        await with_free_port(self._start_apiserver)
        controllers = command_lines.controllers(self.layout, self.options, self.csi)
        self._controllers = self._part("controllers", controllers)
        await self._controllers.start()

    async def _start_apiserver(self) -> None:
        """Raises PortTaken if another program has got the port since it was seen to be free."""
        join = self.options.join
        address = self._nodes.address or (str(join.ip) if join else "")
        chosen = choose_port(self.layout, self.options.port, address)
        self.port, self.instead_of = chosen.number, chosen.instead_of or self.instead_of
        server = command_lines.apiserver(self.layout, self.port, self._nodes.networks.values(), join)
        self._apiserver = self._part("apiserver", server)
        await self._apiserver.start()
        try:
            await self._until_ready(self._apiserver)
        except ClusterError as error:
            await self._apiserver.stop()  # so that it is not ours that has the port
            if all(is_free(host, self.port) for host in filter(None, (HOST, address))):
                raise
            raise PortTaken(f"port {self.port} was taken while the API server started") from error

    def _part(self, name: str, command: list[str]) -> Part:
        return Part(name, command, run=self.layout.run, logs=self.layout.logs)

    async def _until_ready(self, part: Part) -> None:
        deadline, problem = asyncio.get_running_loop().time() + READY_S, ""
        while asyncio.get_running_loop().time() < deadline:
            if part.restarts:
                break
            if self.layout.kubeconfig.exists():
                client = self.client()
                try:
                    await client.request("GET", "/readyz")
                    await self._install(client)
                    remember(self.layout, self.port, self.options.nodes, str(self.options.join or ""))
                    return
                except KubeError as error:
                    problem = f": {error}"
                finally:
                    await client.close()
            await asyncio.sleep(0.05)
        raise ClusterError(
            f"the API server does not come up{problem}; see {self.layout.logs / 'apiserver.log'}"
        )

    async def _install(self, client: Client) -> None:
        for definition in (*DEFINITIONS, *FENCING_KINDS):
            with contextlib.suppress(AlreadyExists):
                await client.create(CustomResourceDefinition, definition)
        for kind, objects in manifests.objects(cloud=self._cloud is not None).items():
            for each in objects:
                with contextlib.suppress(AlreadyExists):
                    await client.create(kind, each)

    async def _storage_changed(self) -> None:
        await self._nodes.renew_links()
        if self.options.fencing:
            await self._teach(self._teach_storage)

    async def _install_fencing(self, client: Client) -> None:
        cloud = self._cloud.credentials() if self._cloud is not None else None
        await fencing.install(client, Paths(directory(self.layout)), cloud)
        if self.options.self_fence:
            await fencing.install_host_agent(client)
        await self._teach_storage(client)

    async def _teach_storage(self, client: Client) -> None:
        sockets = await blocking(run_directory, self.layout.root)
        await fencing.teach_storage(client, self._storage.iscsi, self._storage.parts, sockets)

    async def _teach(self, what: Callable[[Client], Awaitable[None]]) -> None:
        client = self.client()
        try:
            await what(client)
        except KubeError as error:
            raise ClusterError(f"the cluster could not be taught its fence mechanisms: {error}") from error
        finally:
            await client.close()

    async def _obey(self, command: str, node: str, options: Mapping[str, Any]) -> str:
        if command == machine_states.SAID:
            return await machine_states.said(self.machines, self._bmcs.says if self._bmcs else None)
        if command in servers.ORDERS:
            return await self._storage.obey(command, node, options)
        return await orders.obey(self.machines, command, node, options)

    async def stop(self, *, grace: float = 30.0) -> None:
        """Takes everything down: controllers, so that nothing moves any more; machines, while the API server
        can still hear them; then that. A step that fails keeps none of the others from being done; what it
        raised is raised then. Idempotent."""
        async with contextlib.AsyncExitStack() as steps:  # the last one comes first
            steps.callback(self._give_back)
            for part in (self._apiserver, self._cloud, self._storage):
                if part is not None:
                    steps.push_async_callback(part.stop)
            steps.push_async_callback(self._nodes.stop, grace)
            for part in (self._controllers, self._bmcs):
                if part is not None:
                    steps.push_async_callback(part.stop)
            steps.push_async_callback(self._control.aclose)

    def _give_back(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            try:
                sweep(self.layout)
            finally:
                release(self.layout, lock)
