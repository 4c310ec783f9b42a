"""A set of namespaces of this host as a machine.

Losing power means: its file systems stop without flushing, its processes are gone, its devices are gone. In
this order, so that nothing that was not synced reaches a disk (docs/architecture.md, "A simulated machine").
It shares the host's kernel and network, so it cannot have a clock of its own, and a panic is the sudden end
of its first process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mooring.cluster.cloud import CloudParts
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.cgroup import Cgroup
from mooring.cluster.machines.interface import (
    MOST_OUTPUT,
    RUN_S,
    Boot,
    Ending,
    Links,
    Machine,
    NotPossible,
    Power,
)
from mooring.cluster.processes import Part, Running
from mooring.cluster.propagation import clear, share
from mooring.mounts.blocking import blocking
from mooring.mounts.freeze import freeze, thaw
from mooring.mounts.power_loss import shutdown_filesystems

NO_GROUP = "there is no cgroup hierarchy of version 2 here in which groups can be made"


class NamespaceMachine(Machine):
    """A machine that shares the host's kernel."""

    kind = "namespace"
    address = "127.0.0.1"

    def __init__(
        self,
        name: str,
        layout: Layout,
        agent: Callable[[str], Sequence[str]],
        links: Links,
        devices: Callable[[], list[str]],
        *,
        group: Cgroup | None,
        shared: bool = False,
        cloud: CloudParts | None = None,
    ) -> None:
        """`devices` are those of the storages that are its now. `shared`: what others mount in the node's
        directory appears in the machine. With a `cloud` it is an instance of it, and has its driver."""
        self.name = name
        self.links = links
        self._layout = layout
        self._agent = agent
        self._devices = devices
        self._group = group
        self._shared = shared
        self._cloud = cloud
        self._part: Part | None = None
        self._driver: Part | None = None
        self._io_hangs = False

    async def boot(self, boot: Boot) -> None:
        directory = self._layout.node(self.name)
        if self._shared:
            await blocking(share, directory)
        if self._cloud is not None:
            self._driver = self._cloud.node_driver(self.name)
            await self._driver.start()
        command = machine_command(self.name, self._agent(self.name), directory if self._shared else None)
        if self._group is not None:
            await blocking(self._group.make)
            command = self._group.entering(command)
        self._part = Part(
            f"machine-{self.name}",
            command,
            run=self._layout.run,
            logs=self._layout.logs,
            environ=boot.environ,
        )
        await self._part.start(restart=False)

    @property
    def init(self) -> Running | None:
        """The machine's first process, by its pid on the host."""
        running = self._part.running if self._part else None
        children = running.children() if running else []
        return children[0] if children else None

    async def press_power_button(self) -> None:
        if (init := self.init) is not None:
            init.send(signal.SIGTERM)

    async def cut_power(self) -> None:
        if (init := self.init) is not None:
            await blocking(stop_file_systems, await blocking(self._devices), init.pid)
        await self._let_io_go_on()  # a process that waits for a frozen file system cannot be ended
        for part in (self._part, self._driver):
            if part is not None:
                await part.kill()
        if self._group is not None:
            await blocking(self._group.kill)
        if self._shared:
            await blocking(clear, self._layout.node(self.name))

    async def until_off(self) -> Ending:
        assert self._part is not None
        await self._part.ended.wait()
        if self._group is not None:
            await self._group.until_empty()
        return Ending.DIED

    def power(self) -> Power:
        part = self._part is not None and self._part.running is not None
        return Power.ON if part or (self._group is not None and self._group.populated()) else Power.OFF

    def console(self) -> Path:
        return self._layout.logs / f"machine-{self.name}.log"

    async def add_disk(self, disk: str, device: str, link: str) -> None:
        """Nothing: the host's devices are the machine's."""

    async def remove_disk(self, disk: str) -> None:
        """Nothing: the host's devices are the machine's."""

    async def panic(self) -> None:
        """Nothing: the host's kernel goes on. `cut_power`, which must follow, suddenly ends all else."""

    async def freeze(self) -> None:
        await blocking(self._own_group("freeze").freeze, True)

    async def thaw(self) -> None:
        await blocking(self._own_group("freeze").freeze, False)

    def _own_group(self, what: str) -> Cgroup:
        if self._group is None:
            raise NotPossible(f"{what} {self.name}: {NO_GROUP}")
        return self._group

    async def hang(self) -> None:
        """The file systems that are mounted now from its disks are flushed and accept no write any more: who
        writes to them waits, in D state."""
        self._io_hangs = True
        for device in await blocking(self._devices):
            await blocking(freeze, device)

    async def heal(self) -> None:
        if self._group is not None:
            await self.thaw()
        await self._let_io_go_on()

    async def _let_io_go_on(self) -> None:
        if self._io_hangs:
            for device in await blocking(self._devices):
                await blocking(thaw, device)
        self._io_hangs = False

    async def skew(self, seconds: float) -> None:
        raise NotPossible(
            f"{self.name} runs on the host's kernel (--machines namespace), which has one clock for all: "
            "use machines with a kernel of their own (--machines uml)"
        )

    async def run(self, script: str) -> tuple[int, str]:
        if (init := self.init) is None:
            raise ClusterError(f"{self.name} is off")
        namespaces = ["nsenter", "-t", str(init.pid), "-p", "-m", "-u"]
        process = await asyncio.create_subprocess_exec(
            *(*namespaces, "/bin/sh", "-c", script),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(RUN_S):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise ClusterError(f"{self.name}: the script takes more than {RUN_S:g} s") from None
        return process.returncode or 0, output[:MOST_OUTPUT].decode(errors="replace")

    def troubles(self) -> list[str]:
        frozen = self._group is not None and self._group.frozen()
        return ["frozen"] * frozen + ["I/O hangs"] * self._io_hangs


def stop_file_systems(devices: Sequence[str], pid: int) -> None:
    """Shuts down, without flushing, every file system on the devices that process `pid` sees. Blocks."""
    numbers = [os.stat(device).st_rdev for device in devices]
    shutdown_filesystems([(os.major(number), os.minor(number)) for number in numbers], pid)


def machine_command(name: str, agent: Sequence[str], shared: Path | None = None) -> list[str]:
    """The command that makes a machine around an agent's command; in `shared` the host's mounts appear."""
    namespaces = ["--pid", "--fork", "--mount", "--uts", "--kill-child", "--propagation"]
    follows = ["slave"] if shared else ["private"]
    first = [sys.executable, "-m", "mooring.cluster.machines.namespace.first_process", name]
    return ["unshare", *namespaces, *follows, *first, *([str(shared)] if shared else []), "--", *agent]
