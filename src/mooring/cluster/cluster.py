"""The cluster itself: API server, controllers and machines, started in order and taken down in order.

Guarantees: one `up` for a data directory; what dies is started again; when `stop` has returned, no process,
mount or loop device of this cluster is left on the machine; all state is in the data directory and the next
start resumes there.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import structlog

from mooring.apiserver.data_directory import load_tokens, write_kubeconfig, write_private
from mooring.apiserver.process import HOST
from mooring.apiserver.transport import tls
from mooring.apiserver.transport.node_endpoints import LOOPBACK
from mooring.cluster import control, fencing, machine_states, manifests, orders
from mooring.cluster.cloud import CloudOptions, CloudParts, drivers
from mooring.cluster.csi import CSIDrivers
from mooring.cluster.fencing_kinds import FENCING_KINDS
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import cgroup, kinds, ports, relay
from mooring.cluster.machines.bmc import ipmi
from mooring.cluster.machines.bmc.bmcs import Bmcs, directory
from mooring.cluster.machines.bmc.inventory import Paths
from mooring.cluster.machines.bmc.machine_switch import MachineSwitch
from mooring.cluster.machines.boot_orders import Guest
from mooring.cluster.machines.interface import Machine
from mooring.cluster.machines.link_rules import Ends
from mooring.cluster.machines.links import GroupLinks, NoLinks, TapLinks
from mooring.cluster.machines.namespace.machine import NO_GROUP, NamespaceMachine
from mooring.cluster.machines.network import MachineNetwork, plug
from mooring.cluster.machines.node_machine import NodeMachine
from mooring.cluster.machines.uml.kernel import MOST_DISKS
from mooring.cluster.processes import Part, Running, free_port, load, mooring, save
from mooring.cluster.snapshot_kinds import DEFINITIONS
from mooring.cluster.storage import servers
from mooring.cluster.sweep import sweep
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, KubeError
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.mounts.blocking import blocking
from mooring.node.bridge import NetworkUnavailable
from mooring.volumes.plugins.disk_array import DiskArray

log = structlog.get_logger(component="cluster")

READY_S = 30.0
NODE = "node-"
"""Machines are called by this, and a number from 1."""
ADDRESSES = IPv4Network("10.88.0.0/16")
"""Of all pods, and of machines with a kernel of their own."""
ALL_CONTROLLERS = (
    "attachdetach,attacher,binding,provisioning,expansion,modification,scheduling,statefulset,daemonset,"
    "deployment,replicaset,replicationcontroller,job,disruption,quota,ephemeral,snapshots,snapshotter,"
    "nodelifecycle,podgc,cleanup,fencing"
)

RECYCLE_FLAGS = (
    *("--plugin-setting", "kubernetes.io/host-path:recycle=this-machine"),
    *("--plugin-setting", "kubernetes.io/local-volume:recycle=this-machine"),
)
"""All nodes are on this machine, so its controllers may empty their directories."""


@dataclass(frozen=True)
class Options:
    """The options of `mooring up`. Times in seconds."""

    nodes: int = 3
    machines: tuple[str, ...] = ()
    """The kind of each node's machine; namespaces for those that are not named."""
    port: int = 7443
    node_monitor_grace_period: float = 40.0
    kubeconfig_out: Path | None = None
    images: Path | None = None
    rootless: bool = False
    controllers: str = ALL_CONTROLLERS
    csi: CSIDrivers = CSIDrivers()  # noqa: RUF009 - immutable
    cloud: CloudOptions | None = None
    bmc: bool = False
    fencing: bool = False


@dataclass
class Cluster:
    """A running cluster. Use as `async with Cluster(...)`: leaving takes it down."""

    layout: Layout
    options: Options
    machines: dict[str, NodeMachine] = field(default_factory=dict[str, NodeMachine])
    networks: dict[str, MachineNetwork] = field(default_factory=dict[str, MachineNetwork])
    """Of the machines with a kernel of their own, by node; plugged in before the API server starts."""
    port: int = 0
    _lock: Any = None
    _apiserver: Part | None = None
    _controllers: Part | None = None
    _cloud: CloudParts | None = None
    _bmcs: Bmcs | None = None
    _relays: dict[str, int] = field(default_factory=dict[str, int])
    _storage: servers.Servers = field(init=False)
    _control: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def __post_init__(self) -> None:
        self._storage = servers.Servers(self.layout, self.networks, self._renew_links)

    async def __aenter__(self) -> Cluster:
        self.layout.make()
        self._lock = hold(self.layout)
        try:
            sweep(self.layout)  # what a killed `up` may have left
            await self._start()
        except BaseException:
            await self.stop(grace=0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def array(self) -> DiskArray:
        """The disk array of this cluster."""
        return DiskArray(self.layout.array, self._mode)

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

    @property
    def machines_address(self) -> str:
        """Where the API server also serves, for machines that are plugged in; "" if there are none."""
        return next((str(network.host) for network in self.networks.values()), "")

    @property
    def _nodes(self) -> list[str]:
        return [f"{NODE}{number}" for number in range(1, self.options.nodes + 1)]

    def _kind(self, node: str) -> str:
        return dict(zip(self._nodes, self.options.machines, strict=False)).get(node, kinds.NAMESPACE)

    async def _start(self) -> None:
        await blocking(kinds.check, self.options.machines)
        if self.options.csi and set(self.options.machines) - {kinds.NAMESPACE}:
            raise ClusterError(
                "--csi: a driver that listens on this host is not reached from machines with a kernel of their own: "
                "use --machines namespace for it"
            )
        if self.options.bmc:
            ipmi.check()
        await blocking(self._plug_machines)
        if self.options.cloud:
            self._cloud = CloudParts(self.layout, self._nodes, self.options.cloud)
            await self._cloud.start()
        self.port = self._choose_port()
        kubeconfig = str(self.layout.kubeconfig)
        where = ["--data-dir", str(self.layout.apiserver), "--port", str(self.port), *self._machines_flags()]
        self._apiserver = self._part("apiserver", "apiserver", *where, "--kubeconfig-out", kubeconfig)
        await self._apiserver.start()
        await self._until_ready(self._apiserver)
        which = ["--controllers", self.options.controllers, "--kubeconfig", kubeconfig]
        grace = ["--node-monitor-grace-period", str(self.options.node_monitor_grace_period)]
        self._controllers = self._part(
            "controllers",
            "controller",
            *which,
            *grace,
            *self._array_flags(self._mode),
            *RECYCLE_FLAGS,
            *csi_flags(self.csi.controller_settings(f"{NODE}1", self.layout.csi_trace)),
        )
        await self._controllers.start()
        await self._storage.start()
        await self._start_machines()
        if self.options.bmc:
            self._bmcs = Bmcs(self.layout, self._switch())
            await self._bmcs.start()
        if self.options.fencing:
            await self._install_fencing()
        await self._control.enter_async_context(control.serving(self.layout.control, self._obey))
        if self.options.kubeconfig_out:
            hand_out(self.layout.kubeconfig, self.options.kubeconfig_out)

    def _part(self, name: str, *arguments: str) -> Part:
        return Part(name, mooring(*arguments), run=self.layout.run, logs=self.layout.logs)

    def _machines_flags(self) -> list[str]:
        if not self.networks:
            return []
        reached = {*map(str, LOOPBACK), *(str(network.addresses) for network in self.networks.values())}
        return ["--machines-address", self.machines_address, "--node-endpoints", ",".join(sorted(reached))]

    def _array_flags(self, mode: str, **others: object) -> list[str]:
        settings = {"array": self.layout.array, "mode": mode, **others}
        return [
            flag for k, v in settings.items() for flag in ("--plugin-setting", f"mooring.dev/disk:{k}={v}")
        ]

    @property
    def _mode(self) -> str:
        return "directory" if self.options.rootless else "loop"

    def _choose_port(self) -> int:
        """The port asked for, if it is free; else the one that this cluster had, so that kubeconfigs stay
        true."""
        held = settings(self.layout).get("port")
        wanted = int(held or self.options.port)
        if self.options.port == 0 and not held:
            return free_port()
        for host in filter(None, (HOST, self.machines_address)):
            where = "" if host == HOST else f" on {host}"
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, wanted))
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise ClusterError(
                            f"the API server cannot listen at {host}: {error.strerror}"
                        ) from error
                    raise ClusterError(
                        f"port {wanted}{where} is in use by another program: choose one with --port, or --port 0 "
                        "for any free one" + (f" (remembered in {self.layout.settings})" if held else "")
                    ) from error
        return wanted

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
                    self._remember()
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

    async def _install_fencing(self) -> None:
        client = self.client()
        try:
            await fencing.install(client, Paths(directory(self.layout)))
        except KubeError as error:
            raise ClusterError(f"the cluster could not be taught its fence mechanisms: {error}") from error
        finally:
            await client.close()

    def _remember(self) -> None:
        self.layout.settings.write_text(json.dumps({"port": self.port, "nodes": self.options.nodes}))

    def _plug_machines(self) -> None:
        try:
            for name in self._nodes:
                if self._kind(name) != kinds.NAMESPACE:
                    self.layout.node(name).mkdir(parents=True, exist_ok=True)
                    self.networks[name] = plug(self.layout.node(name), ADDRESSES)
        except NetworkUnavailable as error:
            raise ClusterError(f"the machines can have no network: {error}") from error

    async def _start_machines(self) -> None:
        for name in self._nodes:
            self.layout.node(name).mkdir(parents=True, exist_ok=True)
            self._give_credentials(name)
            machine = await self._machine(name)
            if name in self.networks:
                port = ports.serving(self.layout.array / "nodes" / name, machine)
                await self._control.enter_async_context(port)
                if self._cloud is not None:
                    await self._join_cloud(name, machine)
            self.machines[name] = NodeMachine(machine, self.layout, self.array)
        await asyncio.gather(*(machine.start() for machine in self.machines.values()))

    async def _machine(self, name: str) -> Machine:
        group = None if self.options.rootless else await blocking(cgroup.of, self.layout.root, name)
        network = self.networks.get(name)
        if network is None:
            links = (
                GroupLinks(self.layout.root, name, group, self.layout.node(name), self._ends)
                if group is not None
                else NoLinks(f"{name}: {NO_GROUP}, so its traffic cannot be told from others'")
            )
            return NamespaceMachine(
                name,
                self.layout,
                self._agent_command,
                links,
                lambda: self._devices(name),
                group=group,
                shared=bool(self.csi),
                cloud=self._cloud,
            )
        assert group is not None
        make = kinds.OWN_KERNEL[self._kind(name)]
        machine = make(name, self.layout, lambda: self._guest(name), group=group, network=network)
        machine.links = TapLinks(self.layout.root, name, network.tap, self._ends, machine.run)
        return machine

    def _ends(self) -> Ends:
        return Ends(ADDRESSES, self.port, self._storage.addresses)

    async def _renew_links(self) -> None:
        for machine in self.machines.values():
            await machine.links.renew()

    def _devices(self, node: str) -> list[str]:
        """Of the array, and of the cloud's instance. Blocks."""
        disks = [device for device in self.array.devices(node).values() if device.startswith("/dev/")]
        return disks + (self._cloud.devices(node) if self._cloud is not None else [])

    def _guest(self, name: str) -> Guest:
        layout = self.layout
        files = (layout.node_kubeconfig(name), layout.node_endpoint_token(name))
        programs, environ = [self._agent_command(name)], dict[str, str]()
        if self._cloud is not None:
            programs += self._cloud.guest_programs(name, str(self.networks[name].host), self._relays[name])
            environ = self._cloud.node_environ(name)
        written = {str(path): path for path in files}
        written[servers.INITIATOR] = servers.initiator_name(layout, name)
        return Guest(programs, environ, layout.node(name), written, [layout.root])

    async def _join_cloud(self, name: str, machine: Machine) -> None:
        """A machine with a kernel of its own is an instance: its volumes are plugged in, and it reaches its
        metadata service."""
        assert self._cloud is not None
        network = self.networks[name]
        service = relay.serving(str(network.host), str(network.address), self._cloud.metadata_address(name))
        self._relays[name] = await self._control.enter_async_context(service)
        directory = self._cloud.device_directory(name)
        await self._control.enter_async_context(ports.serving(directory, machine))
        for volume, (device, link) in (await blocking(self._cloud.attached, name)).items():
            await machine.add_disk(volume, device, link)

    def _give_credentials(self, node: str) -> None:
        address = self.machines_address if node in self.networks else ""
        url = f"https://{address or HOST}:{self.port}"
        authority = tls.of(self.layout.apiserver, address).authority.read_bytes()
        tokens = load_tokens(self.layout.apiserver)
        write_kubeconfig(self.layout.node_kubeconfig(node), url, tokens.node(node), authority)
        write_private(self.layout.node_endpoint_token(node), tokens.endpoint(node))

    def _agent_command(self, name: str) -> list[str]:
        flags = ["--name", name, "--root-dir", str(self.layout.node(name))]
        flags += ["--kubeconfig", str(self.layout.node_kubeconfig(name)), "--hide", str(self.layout.root)]
        flags += ["--endpoint-token-file", str(self.layout.node_endpoint_token(name))]
        flags += ["--lease-duration", str(max(4.0, self.options.node_monitor_grace_period))]
        if self.options.images:
            flags += ["--images", str(self.options.images)]
        trace = None if name in self.networks else self.layout.csi_trace
        csi = csi_flags(self.csi.settings(name, trace))
        array = self._array_flags(self._mode)
        if (network := self.networks.get(name)) is not None:
            flags += ["--address", str(network.address), "--pod-network", str(network.addresses)]
            array = self._array_flags("machine", maxVolumes=MOST_DISKS)
        return mooring("agent", *flags, *array, *csi)

    def _switch(self) -> MachineSwitch:
        machines = self.machines
        return MachineSwitch(machines, lambda name: machines[name].power, lambda name: machines[name].links)

    async def _obey(self, command: str, node: str, options: Mapping[str, Any]) -> str:
        if command == machine_states.SAID:
            return await machine_states.said(self.machines, self._bmcs.says if self._bmcs else None)
        if command in servers.ORDERS:
            return await self._storage.obey(command, node, options)
        return await orders.obey(self.machines, command, node, options)

    async def stop(self, *, grace: float = 30.0) -> None:
        """Takes everything down: controllers, so that nothing moves any more; machines, while the API server
        can still hear them; then that."""
        await self._control.aclose()
        if self._bmcs is not None:
            await self._bmcs.stop()
        if self._controllers is not None:
            await self._controllers.stop()
        await asyncio.gather(*(machine.stop(grace=grace) for machine in self.machines.values()))
        await self._storage.stop()
        if self._cloud is not None:
            await self._cloud.stop()
        if self._apiserver is not None:
            await self._apiserver.stop()
        if self._lock is not None:
            sweep(self.layout)
            release(self.layout, self._lock)
            self._lock = None


def csi_flags(settings: Mapping[str, str]) -> list[str]:
    """Settings of the CSI plugin on a part's command line."""
    return [flag for k, v in settings.items() for flag in ("--plugin-setting", f"kubernetes.io/csi:{k}={v}")]


def hold(layout: Layout) -> Any:
    """Takes the data directory for this process; ClusterError if another `up` has it."""
    lock = layout.lock.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = load(layout.run / "up.json")
        lock.close()
        who = f" as process {owner.pid}" if owner else ""
        raise ClusterError(
            f"a cluster already runs on {layout.root}{who}: use it (`mooring status`), or give another --data-dir"
        ) from error
    running = Running.of(os.getpid())
    assert running is not None
    save(layout.run / "up.json", running)
    return lock


def release(layout: Layout, lock: Any) -> None:
    """Gives the data directory back."""
    (layout.run / "up.json").unlink(missing_ok=True)
    lock.close()


def settings(layout: Layout) -> dict[str, Any]:
    """What the last run remembered; empty at the first."""
    try:
        return json.loads(layout.settings.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ClusterError(f"{layout.settings} is damaged ({error}): remove it") from error


def hand_out(source: Path, target: Path, chown: Callable[[Path, int, int], None] = os.chown) -> None:
    """Copies the admin's kubeconfig to where the user wants it: 0600, and the user's own behind sudo."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.new")
    draft.touch(mode=0o600)
    shutil.copyfile(source, draft)
    draft.chmod(0o600)
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if user and group:
        chown(draft, int(user), int(group))
    draft.rename(target)
