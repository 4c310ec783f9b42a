"""Makes the machines of a cluster's nodes, each of its kind, with its network, its links, and what its agent
needs to reach the API server.

Guarantees: a machine with a kernel of its own is plugged in before the API server starts, which then serves
it; the storages can plug disks into it from before its first boot until it is off. What becomes of a machine
later is `node_machine`'s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network

from mooring.apiserver.data_directory import load_tokens, write_kubeconfig, write_private
from mooring.apiserver.process import HOST
from mooring.apiserver.transport import tls
from mooring.cluster import command_lines
from mooring.cluster.cloud import CloudParts
from mooring.cluster.csi import CSIDrivers
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import cgroup, kinds, ports, relay
from mooring.cluster.machines.boot_orders import Guest
from mooring.cluster.machines.interface import Machine
from mooring.cluster.machines.link_rules import Ends
from mooring.cluster.machines.links import GroupLinks, NoLinks, TapLinks
from mooring.cluster.machines.namespace.machine import NO_GROUP, NamespaceMachine
from mooring.cluster.machines.network import MachineNetwork, plug
from mooring.cluster.machines.node_machine import NodeMachine
from mooring.cluster.options import Options
from mooring.cluster.storage import servers
from mooring.cluster.together import together
from mooring.mounts.blocking import blocking
from mooring.node.bridge import NetworkUnavailable
from mooring.volumes.plugins.disk_array import DiskArray

ADDRESSES = IPv4Network("10.88.0.0/16")
"""Of all pods, and of machines with a kernel of their own."""


class NodeMachines:
    """Those of one cluster. `storage_addresses` are those of its storage servers at the time of the call."""

    def __init__(
        self,
        layout: Layout,
        options: Options,
        array: DiskArray,
        storage_addresses: Callable[[], Sequence[IPv4Address]],
    ) -> None:
        self.machines: dict[str, NodeMachine] = {}
        """By node; empty before `start`."""
        self.networks: dict[str, MachineNetwork] = {}
        """Of the machines with a kernel of their own, by node."""
        self._layout = layout
        self._options = options
        self._array = array
        self._storage_addresses = storage_addresses
        self._csi = CSIDrivers()
        self._cloud: CloudParts | None = None
        self._port = 0
        self._ports = contextlib.AsyncExitStack()
        self._relays: dict[str, int] = {}

    @property
    def address(self) -> str:
        """Where this host is reached by machines that are plugged in; "" if there are none."""
        return next((str(network.host) for network in self.networks.values()), "")

    def plug(self) -> None:
        """Plugs the machines with a kernel of their own into the bridge. Blocks. Raises ClusterError."""
        try:
            for name, kind in self._options.kinds.items():
                if kind != kinds.NAMESPACE:
                    self._layout.node(name).mkdir(parents=True, exist_ok=True)
                    self.networks[name] = plug(self._layout.node(name), ADDRESSES)
        except NetworkUnavailable as error:
            raise ClusterError(f"the machines can have no network: {error}") from error

    async def start(self, port: int, csi: CSIDrivers, cloud: CloudParts | None) -> None:
        """Boots all. `port` is the API server's; with a `cloud` each machine is an instance."""
        self._port, self._csi, self._cloud = port, csi, cloud
        for name in self._options.kinds:
            self._layout.node(name).mkdir(parents=True, exist_ok=True)
            self._give_credentials(name)
            machine = await self._make(name)
            if name in self.networks:
                await self._open_ports(name, machine)
            self.machines[name] = NodeMachine(machine, self._layout, self._array)
        await together(*(machine.start() for machine in self.machines.values()))

    async def stop(self, grace: float) -> None:
        """Shuts all down; those that are not off after `grace` seconds lose their power."""
        try:
            await together(*(machine.stop(grace=grace) for machine in self.machines.values()))
        finally:
            await self._ports.aclose()

    async def renew_links(self) -> None:
        """To be called when the storage servers' addresses have changed."""
        for machine in self.machines.values():
            await machine.links.renew()

    # --- one machine

    async def _make(self, name: str) -> Machine:
        group = None if self._options.rootless else await blocking(cgroup.of, self._layout.root, name)
        network = self.networks.get(name)
        if network is None:
            links = (
                GroupLinks(self._layout.root, name, group, self._layout.node(name), self._ends)
                if group is not None
                else NoLinks(f"{name}: {NO_GROUP}, so its traffic cannot be told from others'")
            )
            return NamespaceMachine(
                name,
                self._layout,
                self._agent,
                links,
                lambda: self._devices(name),
                group=group,
                shared=bool(self._csi),
                cloud=self._cloud,
            )
        assert group is not None
        make = kinds.OWN_KERNEL[self._options.kinds[name]]
        machine = make(name, self._layout, lambda: self._guest(name), group=group, network=network)
        machine.links = TapLinks(self._layout.root, name, network.tap, self._ends, machine.run)
        return machine

    def _ends(self) -> Ends:
        return Ends(ADDRESSES, self._port, self._storage_addresses())

    def _agent(self, name: str) -> list[str]:
        provider = self._cloud.provider_ids[name] if self._cloud is not None else ""
        network = self.networks.get(name)
        return command_lines.agent(self._layout, self._options, self._csi, name, network, provider)

    def _give_credentials(self, node: str) -> None:
        address = self.address if node in self.networks else ""
        url = f"https://{address or HOST}:{self._port}"
        authority = tls.of(self._layout.apiserver, address).authority.read_bytes()
        tokens = load_tokens(self._layout.apiserver)
        write_kubeconfig(self._layout.node_kubeconfig(node), url, tokens.node(node), authority)
        write_private(self._layout.node_endpoint_token(node), tokens.endpoint(node))

    def _devices(self, node: str) -> list[str]:
        """Of the array, and of the cloud's instance. Blocks."""
        disks = [device for device in self._array.devices(node).values() if device.startswith("/dev/")]
        return disks + (self._cloud.devices(node) if self._cloud is not None else [])

    # --- one with a kernel of its own

    async def _open_ports(self, name: str, machine: Machine) -> None:
        port = ports.serving(self._layout.array / "nodes" / name, machine)
        await self._ports.enter_async_context(port)
        if self._cloud is not None:
            await self._join_cloud(name, machine, self._cloud)

    async def _join_cloud(self, name: str, machine: Machine, cloud: CloudParts) -> None:
        """The machine is an instance: its volumes are plugged in, and it reaches its metadata service."""
        network = self.networks[name]
        service = relay.serving(str(network.host), str(network.address), cloud.metadata_address(name))
        self._relays[name] = await self._ports.enter_async_context(service)
        await self._ports.enter_async_context(ports.serving(cloud.device_directory(name), machine))
        for volume, (device, link) in (await blocking(cloud.attached, name)).items():
            await machine.add_disk(volume, device, link)

    def _guest(self, name: str) -> Guest:
        layout = self._layout
        files = (layout.node_kubeconfig(name), layout.node_endpoint_token(name))
        programs, environ = [self._agent(name)], dict[str, str]()
        if self._cloud is not None:
            programs += self._cloud.guest_programs(name, str(self.networks[name].host), self._relays[name])
            environ = self._cloud.node_environ(name)
        written = {str(path): path for path in files}
        written[servers.INITIATOR] = servers.initiator_name(layout, name)
        return Guest(programs, environ, layout.node(name), written, [layout.root])
