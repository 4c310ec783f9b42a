"""Machines that are only played, under the real node agent: what runs, what a loss of power does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from array_double import Array
from wire import Wire

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.transport import InProcess
from mooring.mounts.interface import Mount
from mooring.node.agent import Agent
from mooring.node.options import AgentOptions
from mooring.node.runtime import ContainerRecord, ContainerSpec, Sandbox, SandboxSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.plugin_manager import PluginManager


class PlayedRuntime:
    """Containers run until they are asked to end."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, Sandbox] = {}
        self._on_change: Callable[[str], None] = lambda uid: None

    async def recover(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change

    def sandboxes(self) -> Mapping[str, Sandbox]:
        return self._sandboxes

    def _update(self, uid: str, **changes: Any) -> None:
        self._sandboxes[uid] = msgspec.structs.replace(self._sandboxes[uid], **changes)
        self._on_change(uid)

    async def start_sandbox(self, spec: SandboxSpec) -> None:
        former = self._sandboxes.get(spec.uid)
        number = former.number + 1 if former else 0
        self._sandboxes[spec.uid] = Sandbox(running=True, number=number, rootfs="overlay")
        self._on_change(spec.uid)

    async def start_container(self, uid: str, spec: ContainerSpec) -> None:
        sandbox = self._sandboxes[uid]
        record = ContainerRecord(spec.attempt, asyncio.get_running_loop().time(), sandbox=sandbox.number)
        self._update(uid, containers={**sandbox.containers, spec.name: record})

    async def signal_container(self, uid: str, container: str, number: int) -> None:
        self._end(uid, 143)

    async def kill_sandbox(self, uid: str) -> None:
        self._end(uid, 137)
        self._update(uid, running=False)

    def _end(self, uid: str, code: int) -> None:
        now = asyncio.get_running_loop().time()
        records = {
            name: msgspec.structs.replace(record, exit_code=code, finished_at=now)
            if record.exit_code is None
            else record
            for name, record in self._sandboxes[uid].containers.items()
        }
        self._update(uid, containers=records)

    async def remove_sandbox(self, uid: str) -> None:
        self._sandboxes.pop(uid, None)


class _NoMounts:
    def __init__(self, array: Array, node: str, mounts: Path) -> None:
        self._array, self._node, self._mounts = array, node, mounts

    async def mount_table(self, pid: int | None = None) -> tuple[Mount, ...]:
        points = sorted(str(self._mounts / disk) for disk, node in self._array.mounted if node == self._node)
        return tuple(
            Mount(number, 0, (8, 0), "/", point, frozenset(), "ext4", "/dev/x") for number, point in enumerate(points)
        )


class Machine:
    """One node. `agent_dies` leaves processes and mounts; `power_off` does not."""

    def __init__(
        self,
        name: str,
        server: Server,
        array: Array,
        root: Path,
        now: Callable[[], datetime],
        make_plugins: Callable[[VolumeHost], PluginManager],
    ) -> None:
        self.name = name
        self.runtime = PlayedRuntime()
        self.wire = Wire(InProcess(server.call, server.tokens.node(name)))
        self._array, self._root, self._now = array, root, now
        self._make_plugins = make_plugins
        self._boots = 0
        self._agent: asyncio.Task[None] | None = None

    def start_agent(self) -> None:
        options = AgentOptions(
            name=self.name, root_dir=self._root, boot_id=f"boot-{self._boots}", lease_duration_s=8, status_period_s=60
        )
        mounts = self._root / "plugins" / "example.com~disk" / "mounts"
        agent = Agent(
            options,
            Client(self.wire),
            runtime=self.runtime,
            mounts=_NoMounts(self._array, self.name, mounts),  # type: ignore[arg-type]
            now=self._now,
            random=Random(self.name),
            make_plugins=self._make_plugins,
        )
        self._agent = asyncio.create_task(agent.run(asyncio.Event()))

    def restart_agent(self) -> None:
        """On a new wire: the old one may have crashed."""
        self.wire = Wire(self.wire.inner)
        self.start_agent()

    async def agent_dies(self) -> None:
        assert self._agent is not None
        self._agent.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._agent

    async def power_off(self) -> None:
        await self.agent_dies()
        self.runtime = PlayedRuntime()
        self._array.power_off(self.name)

    def power_on(self) -> None:
        self._boots += 1
        self.start_agent()

    def check(self) -> None:
        """Raises what ended the agent, if it has ended."""
        if self._agent is not None and self._agent.done() and not self._agent.cancelled():
            self._agent.result()
