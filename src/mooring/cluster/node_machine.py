"""One simulated machine, seen from the host: power button, power loss, power on.

Losing power means: its file systems stop without flushing, its processes are gone, its devices are gone. In
this order, so that nothing that was not synced reaches a disk (docs/architecture.md, "A simulated machine").
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from mooring.cluster.cloud import CloudParts
from mooring.cluster.layout import Layout
from mooring.cluster.machines.interface import Links
from mooring.cluster.machines.links import NoLinks
from mooring.cluster.processes import Part, Running
from mooring.cluster.propagation import clear, share
from mooring.mounts.blocking import blocking
from mooring.mounts.power_loss import shutdown_filesystems
from mooring.volumes.errors import DeviceStillInUse
from mooring.volumes.plugins.disk_array import DiskArray

log = structlog.get_logger(component="cluster")

CLEAN_STOP_S = 60.0
RESTART_S = 0.5
RELEASE_S = 10.0


class NodeMachine:
    """A node's machine. `on` says whether it has power."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        array: DiskArray,
        agent: Callable[[str], Sequence[str]],
        *,
        shared: bool = False,
        cloud: CloudParts | None = None,
    ) -> None:
        """`shared`: what others mount in the node's directory appears in the machine. With a `cloud` the
        machine is an instance of it, and has its driver."""
        self._shared = shared
        self._cloud = cloud
        self._driver: Part | None = None
        self.name = name
        self.on = False
        self.links: Links = NoLinks(f"{name}: the links of this machine cannot be cut")
        self._layout = layout
        self._array = array
        self._agent = agent
        self._part: Part | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()  # one change of power at a time

    async def start(self) -> None:
        """Powers on: a new boot. Nothing happens if it is on."""
        async with self._lock:
            if not self.on:
                await self._boot()

    async def stop(self, *, grace: float = CLEAN_STOP_S) -> bool:
        """Presses the power button and waits up to `grace` seconds; then the power is cut. True if it went
        cleanly."""
        async with self._lock:
            if not self.on or self._part is None:
                return True
            self.on = False
            init = self.init
            if init is not None:
                init.send(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._part.ended.wait(), grace)
                clean = True
            except TimeoutError:
                log.warning("did not shut down in time: its power is cut", node=self.name, seconds=grace)
                clean = False
            await self._cut()
            return clean

    async def lose_power(self) -> None:
        """Power loss: what was not synced is gone."""
        async with self._lock:
            self.on = False
            await self._cut()

    def cut_now(self) -> None:
        """Lets a clean stop that is under way wait no longer."""
        init = self.init
        if init is not None:
            init.send(signal.SIGKILL)

    @property
    def init(self) -> Running | None:
        """The machine's first process, by its pid on the host."""
        running = self._part.running if self._part else None
        children = running.children() if running else []
        return children[0] if children else None

    async def _boot(self) -> None:
        await blocking(self._array.power_on, self.name)
        self._layout.node(self.name).mkdir(parents=True, exist_ok=True)
        ended, boot_id = self._next_boot()
        if self._shared:
            await blocking(share, self._layout.node(self.name))
        if self._cloud is not None:
            self._driver = self._cloud.node_driver(self.name)
            await self._driver.start()
        self._part = Part(
            f"machine-{self.name}",
            machine_command(
                self.name, self._agent(self.name), self._layout.node(self.name) if self._shared else None
            ),
            run=self._layout.run,
            logs=self._layout.logs,
            environ={"MOORING_BOOT_ID": boot_id, "MOORING_ENDED_BOOT_ID": ended},
        )
        await self._part.start(restart=False)
        self.on = True
        log.info("power on", node=self.name, boot_id=boot_id)
        self._watcher = asyncio.create_task(self._reboot_when_it_dies(self._part), name=f"watch {self.name}")

    def _next_boot(self) -> tuple[str, str]:
        """The boot before, which is certainly over (this machine is off), and the one that begins."""
        record = self._layout.node(self.name) / "boot-id"
        ended, boot_id = record.read_text() if record.exists() else "", str(uuid.uuid4())
        record.write_text(boot_id)
        return ended, boot_id

    async def _cut(self) -> None:
        init = self.init
        if init is not None:
            await blocking(stop_file_systems, await blocking(self._devices), init.pid)
        for part in (self._part, self._driver):
            if part is not None:
                await part.kill()
        await self._take_devices()

    def _devices(self) -> list[str]:
        """Of the array, and of the cloud's instance. Blocks."""
        disks = [device for device in self._array.devices(self.name).values() if device.startswith("/dev/")]
        return disks + (self._cloud.devices(self.name) if self._cloud is not None else [])

    async def _take_devices(self) -> None:
        if self._shared:
            await blocking(clear, self._layout.node(self.name))
        await blocking(take_devices, self._array, self.name)

    async def _reboot_when_it_dies(self, part: Part) -> None:
        await part.ended.wait()
        async with self._lock:
            if not self.on or self._part is not part:
                return
            log.warning("machine died: it boots again", node=self.name)
            self.on = False
            if self._driver is not None:
                await self._driver.kill()
            await self._take_devices()
            await asyncio.sleep(RESTART_S)
            await self._boot()


def stop_file_systems(devices: Sequence[str], pid: int) -> None:
    """Shuts down, without flushing, every file system on the devices that process `pid` sees. Blocks."""
    numbers = [os.stat(device).st_rdev for device in devices]
    shutdown_filesystems([(os.major(number), os.minor(number)) for number in numbers], pid)


def take_devices(array: DiskArray, node: str) -> None:
    """The node's devices lose power. Its processes are gone; the kernel may still be dropping their mounts.
    Blocks."""
    deadline = time.monotonic() + RELEASE_S
    while True:
        try:
            array.power_off(node)
            return
        except DeviceStillInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def machine_command(name: str, agent: Sequence[str], shared: Path | None = None) -> list[str]:
    """The command that makes a machine around an agent's command; in `shared` the host's mounts appear."""
    namespaces = ["--pid", "--fork", "--mount", "--uts", "--kill-child", "--propagation"]
    follows = ["slave"] if shared else ["private"]
    first = [sys.executable, "-m", "mooring.cluster.machine", name, *([str(shared)] if shared else [])]
    return ["unshare", *namespaces, *follows, *first, "--", *agent]
