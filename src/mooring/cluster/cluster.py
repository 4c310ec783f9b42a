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
from pathlib import Path
from typing import Any

import structlog

from mooring.apiserver.data_directory import load_tokens, write_kubeconfig, write_private
from mooring.cluster import control, manifests
from mooring.cluster.cloud import CloudOptions, CloudParts, drivers
from mooring.cluster.csi import CSIDrivers
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.bmc.bmcs import Bmcs
from mooring.cluster.machines.bmc.machine_switch import MachineSwitch
from mooring.cluster.machines.interface import Power
from mooring.cluster.node_machine import NodeMachine
from mooring.cluster.processes import Part, Running, free_port, load, mooring, save
from mooring.cluster.snapshot_kinds import DEFINITIONS
from mooring.cluster.sweep import sweep
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, KubeError
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.volumes.plugins.disk_array import DiskArray

log = structlog.get_logger(component="cluster")

READY_S = 30.0
NODE = "node-"
"""Machines are called by this, and a number from 1."""
ALL_CONTROLLERS = (
    "attachdetach,attacher,binding,provisioning,expansion,modification,scheduling,statefulset,daemonset,"
    "deployment,replicaset,replicationcontroller,job,disruption,quota,ephemeral,snapshots,snapshotter,"
    "nodelifecycle,podgc,cleanup"
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
    port: int = 7443
    node_monitor_grace_period: float = 40.0
    kubeconfig_out: Path | None = None
    images: Path | None = None
    rootless: bool = False
    controllers: str = ALL_CONTROLLERS
    csi: CSIDrivers = CSIDrivers()  # noqa: RUF009 - immutable
    cloud: CloudOptions | None = None
    bmc: bool = False


@dataclass
class Cluster:
    """A running cluster. Use as `async with Cluster(...)`: leaving takes it down."""

    layout: Layout
    options: Options
    machines: dict[str, NodeMachine] = field(default_factory=dict[str, NodeMachine])
    port: int = 0
    _lock: Any = None
    _apiserver: Part | None = None
    _controllers: Part | None = None
    _cloud: CloudParts | None = None
    _bmcs: Bmcs | None = None
    _control: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

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
    def _nodes(self) -> list[str]:
        return [f"{NODE}{number}" for number in range(1, self.options.nodes + 1)]

    async def _start(self) -> None:
        if self.options.cloud:
            self._cloud = CloudParts(self.layout, self._nodes, self.options.cloud)
            await self._cloud.start()
        self.port = self._choose_port()
        kubeconfig = str(self.layout.kubeconfig)
        where = ["--data-dir", str(self.layout.apiserver), "--port", str(self.port)]
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
            *self._array_flags(),
            *RECYCLE_FLAGS,
            *csi_flags(self.csi.controller_settings(f"{NODE}1", self.layout.csi_trace)),
        )
        await self._controllers.start()
        await self._start_machines()
        if self.options.bmc:
            self._bmcs = Bmcs(self.layout, MachineSwitch(self.machines, self._power, lambda _: None))
            await self._bmcs.start()
        await self._control.enter_async_context(control.serving(self.layout.control, self._obey))
        if self.options.kubeconfig_out:
            hand_out(self.layout.kubeconfig, self.options.kubeconfig_out)

    def _part(self, name: str, *arguments: str) -> Part:
        return Part(name, mooring(*arguments), run=self.layout.run, logs=self.layout.logs)

    def _array_flags(self) -> list[str]:
        settings = {"array": self.layout.array, "mode": self._mode}
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
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                raise ClusterError(
                    f"port {wanted} is in use by another program: choose one with --port, or --port 0 for any free one"
                    + (f" (remembered in {self.layout.settings})" if held else "")
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
        for definition in DEFINITIONS:
            with contextlib.suppress(AlreadyExists):
                await client.create(CustomResourceDefinition, definition)
        for kind, objects in manifests.objects(cloud=self._cloud is not None).items():
            for each in objects:
                with contextlib.suppress(AlreadyExists):
                    await client.create(kind, each)

    def _remember(self) -> None:
        self.layout.settings.write_text(json.dumps({"port": self.port, "nodes": self.options.nodes}))

    async def _start_machines(self) -> None:
        for name in self._nodes:
            self.layout.node(name).mkdir(parents=True, exist_ok=True)
            self._give_credentials(name)
            self.machines[name] = NodeMachine(
                name, self.layout, self.array, self._agent_command, shared=bool(self.csi), cloud=self._cloud
            )
        await asyncio.gather(*(machine.start() for machine in self.machines.values()))

    def _give_credentials(self, node: str) -> None:
        url = f"https://127.0.0.1:{self.port}"
        authority = (self.layout.apiserver / "ca.crt").read_bytes()
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
        csi = csi_flags(self.csi.settings(name, self.layout.csi_trace))
        return mooring("agent", *flags, *self._array_flags(), *csi)

    def _power(self, name: str) -> Power:
        """From the machine's live processes."""
        return Power.ON if self.machines[name].init is not None else Power.OFF

    async def _obey(self, command: str, node: str) -> str:
        machine = self.machines.get(node)
        if machine is None:
            raise ClusterError(f"no node {node!r} here: there are {', '.join(self.machines)}")
        match command:
            case "start":
                if machine.on:
                    raise ClusterError(f"{node} is on")
                await machine.start()
                return f"{node} boots"
            case "stop":
                if not machine.on:
                    raise ClusterError(f"{node} is off")
                clean = await machine.stop()
                return (
                    f"{node} has shut down"
                    if clean
                    else f"{node} did not shut down in time; its power was cut"
                )
            case "kill":
                if not machine.on:
                    raise ClusterError(f"{node} is off")
                await machine.lose_power()
                return f"{node} has lost power"
            case _:
                raise ClusterError(f"unknown command {command!r}")

    async def stop(self, *, grace: float = 30.0) -> None:
        """Takes everything down: controllers, so that nothing moves any more; machines, while the API server
        can still hear them; then that."""
        await self._control.aclose()
        if self._bmcs is not None:
            await self._bmcs.stop()
        if self._controllers is not None:
            await self._controllers.stop()
        await asyncio.gather(*(machine.stop(grace=grace) for machine in self.machines.values()))
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
