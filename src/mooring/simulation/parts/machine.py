"""A machine that is only played, under the production node agent: what runs on it, what is mounted, what
power does.

Processes and mounts are the truth of a node: they outlive the agent and do not outlive the power.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec

from mooring.kube.client import Client
from mooring.kube.transport import Transport
from mooring.mounts.interface import Mount, Mounts
from mooring.node.agent import Agent
from mooring.node.hardware import Hardware
from mooring.node.options import AgentOptions
from mooring.node.runtime import (
    ContainerRecord,
    ContainerSpec,
    ExecResult,
    PodNetwork,
    Sandbox,
    SandboxSpec,
    Stdio,
)
from mooring.simulation.parts.array_plugin import DISK, Array
from mooring.simulation.parts.content_plugins import in_memory_at, is_in_memory, is_shown, lose_memory
from mooring.simulation.parts.csi_driver import staged_at
from mooring.simulation.parts.manifests import ManifestFolder
from mooring.simulation.parts.peer_wire import PeerWire
from mooring.simulation.parts.plugins import MakePlugins
from mooring.simulation.parts.raw_devices import lose_devices
from mooring.simulation.parts.share_plugin import lose_shares, shares_at
from mooring.simulation.parts.watchdog import SimulatedWatchdog
from mooring.volumes.names import CSI_PLUGIN, escape_plugin_name
from mooring.volumes.plugins.csi.publishing import MOUNT

RUNS, FAILS = "run", "fail"
"""Commands of containers that run until they are told to end, and that fail as soon as they have begun."""
HARDWARE = Hardware(cpus=2, memory_kib=8 * 1024 * 1024, architecture="amd64", kernel="6.12.0")
ENDS = "end"
"""A container with this command ends by itself."""
FAILS_S = 0.5
SELF_FENCE_S = 48.0
"""So long without an acknowledged renewal, and a node with a watchdog ends its pods: it renews every 36 s."""
CLOCK_DRIFT = 0.01
"""Of the seconds that agents with watchdogs count."""
RUNS_S = 20.0
"""How long a container runs that ends by itself."""


class PlayedRuntime:
    """Containers run until they are asked to end, or a while; then they end at once, or after `stop_s`
    seconds.

    Each writes a word to every disk of its pod when it starts. `journal` is told of processes.
    """

    def __init__(self, array: Array | None = None, node: str = "") -> None:
        self._array = array or Array()
        self._node = node
        self._sandboxes: dict[str, Sandbox] = {}
        self._specs: dict[str, SandboxSpec] = {}
        self._on_change: Callable[[str], None] = lambda uid: None
        self._powered = True
        self.stop_s = 0.0

    async def recover(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change

    def sandboxes(self) -> Mapping[str, Sandbox]:
        return self._sandboxes

    def _update(self, uid: str, **changes: Any) -> None:
        self._sandboxes[uid] = msgspec.structs.replace(self._sandboxes[uid], **changes)
        self._on_change(uid)

    def prepare(self, network: PodNetwork | None) -> None:
        """Nothing can be done ahead."""

    async def start_sandbox(self, spec: SandboxSpec) -> None:
        former = self._sandboxes.get(spec.uid)
        number = former.number + 1 if former else 0
        self._specs[spec.uid] = spec
        self._sandboxes[spec.uid] = Sandbox(running=True, number=number, rootfs="overlay")
        self._on_change(spec.uid)

    async def start_container(self, uid: str, spec: ContainerSpec) -> None:
        sandbox = self._sandboxes[uid]
        record = ContainerRecord(spec.attempt, asyncio.get_running_loop().time(), sandbox=sandbox.number)
        self._tell(uid, "started", spec.name)
        for disk in disks_of(self._specs[uid]):
            self._array.use(disk, self._node, f"{uid}/{spec.name}", f"{uid}/{spec.name}/{spec.attempt}")
        self._update(uid, containers={**sandbox.containers, spec.name: record})
        if spec.argv[:1] == (ENDS,):
            self._later(RUNS_S, uid, 0)
        elif spec.argv[:1] == (FAILS,):
            self._later(FAILS_S, uid, 1)

    async def signal_container(self, uid: str, container: str, number: int) -> None:
        self._array.journal(self._node, "truth.signalled", uid=uid, container=container)
        if self.stop_s:
            self._later(self.stop_s, uid, 143)
        else:
            self._end(uid, 143)

    async def kill_sandbox(self, uid: str) -> None:
        running = len(self._running(uid))
        self._array.journal(self._node, "truth.killed", uid=uid, node=self._node, running=running)
        self._end(uid, 137)
        self._update(uid, running=False)

    def running(self) -> list[tuple[str, str]]:
        """Uid and name of each pod that has a process."""
        return [(uid, self._specs[uid].hostname) for uid in self._sandboxes if self._running(uid)]

    def power_off(self) -> None:
        """Every process ends, and the agent is not told."""
        self._powered = False
        for uid in self._sandboxes:
            for name in self._running(uid):
                self._tell(uid, "ended", name)

    def _running(self, uid: str) -> list[str]:
        return [name for name, record in self._sandboxes[uid].containers.items() if record.exit_code is None]

    def _later(self, seconds: float, uid: str, code: int) -> None:
        """Processes end by themselves, whether or not an agent is there."""
        asyncio.get_running_loop().call_later(seconds, self._end, uid, code, context=Context())

    def _end(self, uid: str, code: int) -> None:
        if not self._powered or uid not in self._sandboxes:
            return
        now = asyncio.get_running_loop().time()
        ended = self._running(uid)
        records = {
            name: msgspec.structs.replace(record, exit_code=code, finished_at=now)
            if name in ended
            else record
            for name, record in self._sandboxes[uid].containers.items()
        }
        for name in ended:
            self._tell(uid, "ended", name)
        self._update(uid, containers=records)

    def _tell(self, uid: str, what: str, container: str) -> None:
        spec = self._specs[uid]
        disks = ",".join(disks_of(spec))
        if what == "ended":
            for disk in disks_of(spec):
                self._array.leave(disk, self._node, f"{uid}/{container}")
        self._array.journal(
            self._node,
            f"truth.{what}",
            pod=spec.hostname,
            uid=uid,
            node=self._node,
            container=container,
            disks=disks,
            **({"absent": absent} if (absent := _absent(spec)) and what == "started" else {}),
        )

    async def remove_sandbox(self, uid: str) -> None:
        self._sandboxes.pop(uid, None)

    async def exec(
        self, uid: str, container: str, argv: Sequence[str], stdio: Stdio, *, tty: bool = False
    ) -> int:
        raise NotImplementedError

    async def run(self, uid: str, container: str, argv: Sequence[str]) -> ExecResult:
        """Every command succeeds, and does nothing."""
        return ExecResult(0, "")

    def exit(self, uid: str, code: int) -> None:
        """The pod's containers that run end by themselves."""
        self._end(uid, code)

    def open_terminal(self, uid: str) -> tuple[int, int]:
        raise NotImplementedError

    def log_files(self, uid: str, container: str, attempt: int) -> list[Path]:
        return []


def disks_of(spec: SandboxSpec) -> list[str]:
    """The disks among a sandbox's volumes: `<root>/pods/<uid>/volumes/<plugin>/<volume>`."""
    paths = (Path(directory) for directory in spec.volumes.values())
    return sorted(disk for path in paths if (disk := _disk_at(path)))


def _absent(spec: SandboxSpec) -> str:
    """The sandbox's volumes that are not set up where it is told to find them."""
    return ",".join(sorted(name for name, at in spec.volumes.items() if not is_shown(Path(at))))


def _disk_at(path: Path) -> str:
    """A plugin shows its disk at `<plugin>/<disk>`, CSI at `kubernetes.io~csi/<disk>/mount`, and a raw
    device at `kubernetes.io~csi/<disk>`."""
    if path.name == MOUNT and path.parents[1].name == escape_plugin_name(CSI_PLUGIN):
        return path.parent.name
    shows = (escape_plugin_name(DISK), escape_plugin_name(CSI_PLUGIN))
    return path.name if path.parent.name in shows else ""


class PlayedMounts:
    """The mount table of one machine, as far as disks, shares, and what is in memory are in it."""

    def __init__(self, array: Array, node: str, root: Path) -> None:
        self._array, self._node, self._root = array, node, root

    async def is_mount_point(self, path: str) -> bool:
        return is_in_memory(Path(path)) or path in self._points()

    async def mount(self, source: str, target: str, fs_type: str, options: Sequence[str]) -> None:
        """Of a tmpfs."""
        Path(target).mkdir(parents=True)

    async def remove_mount_point(self, target: str) -> None:
        if Path(target).is_dir():
            Path(target).rmdir()

    async def get_device_mount_refs(self, path: str) -> list[str]:
        return []

    async def unmount(self, target: str) -> None:
        """Of the mount points of disks, and of a tmpfs, which takes its files with it."""
        if is_in_memory(Path(target)):
            shutil.rmtree(target)
        for disk, node in sorted(self._array.mounted - self._array.raw):
            if node == self._node and target == self._point(disk):
                self._array.unmount(disk, node)

    def _point(self, disk: str) -> str:
        by_plugin = self._root / "plugins" / escape_plugin_name(DISK) / "mounts"
        return staged_at(self._root, disk) or str(by_plugin / disk)

    def _points(self) -> list[str]:
        there = self._array.mounted - self._array.raw
        return sorted(self._point(disk) for disk, node in there if node == self._node)

    async def mount_table(self, pid: int | None = None) -> tuple[Mount, ...]:
        points = [*self._points(), *map(str, (*shares_at(self._root), *in_memory_at(self._root)))]
        return tuple(
            Mount(number, 0, (8, 0), "/", point, frozenset(), "ext4", "/dev/x")
            for number, point in enumerate(points)
        )


class Machine:
    """One node: its processes, its boots, and the making of its agent."""

    def __init__(
        self,
        name: str,
        array: Array,
        root: Path,
        *,
        now: Callable[[], datetime],
        random: Random,
        make_plugins: MakePlugins,
    ) -> None:
        self.name = name
        self.array = array
        self.runtime = PlayedRuntime(array, name)
        self.boots = 0
        self.controller_attaches = True
        self.lease_duration_s, self.status_period_s, self.watch_s = 8.0, 60.0, 300.0
        self.manifests = ManifestFolder(root / "manifests")
        self.has_manifests = False
        self.system_uuid = ""
        self.watchdog: SimulatedWatchdog | None = None
        self.peers: PeerWire | None = None
        self.clock_rate = 1.0
        """Of the seconds that its agent counts."""
        self.root, self._now, self._random, self._make_plugins = root, now, random, make_plugins

    def agent(self, transport: Transport) -> Agent:
        """A new node agent for what is there."""
        options = AgentOptions(
            name=self.name,
            root_dir=self.root,
            boot_id=f"boot-{self.boots}",
            ended_boot_id=f"boot-{self.boots - 1}",
            agent_id=self.name,
            lease_duration_s=self.lease_duration_s,
            status_period_s=self.status_period_s,
            hardware=HARDWARE,
            system_uuid=self.system_uuid,
            self_fence_after_s=SELF_FENCE_S,
            enable_controller_attach_detach=self.controller_attaches,
            manifests_dir=self.manifests.path if self.has_manifests else None,
        )
        return Agent(
            options,
            Client(transport, watch_s=self.watch_s),
            runtime=self.runtime,
            mounts=cast(Mounts, PlayedMounts(self.array, self.name, self.root)),
            now=self._now,
            random=self._random,
            make_plugins=self._make_plugins,
            watch_folders=self.manifests.watch,
            watchdog=self.watchdog,
            clock=self._seconds,
            peer_door=self.peers.door(self.name) if self.peers is not None else None,
        )

    def _seconds(self) -> float:
        return asyncio.get_running_loop().time() * self.clock_rate

    def lose_power(self) -> None:
        """Processes, mounts and devices are gone; what the agent wrote down stays."""
        self.runtime.power_off()
        self.runtime = PlayedRuntime(self.array, self.name)
        self.array.power_off(self.name)
        lose_devices(self.root)
        lose_shares(self.root)
        lose_memory(self.root)
        if self.watchdog is not None:
            self.watchdog.off()
        if self.peers is not None:
            self.peers.silence(self.name)
        self.boots += 1
