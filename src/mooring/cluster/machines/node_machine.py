"""One node's machine, whatever its kind: power button, power loss, power on, and what happens when it dies.

Guarantees: one change of power at a time; each boot has an ID of its own, written down before it begins, and
says which boot before it is certainly over; a machine without power has no devices; one whose boot failed
has no power. A machine that resets itself boots again, and is tried until it does; so is one of namespaces
that died, as there is nothing else that could reset it. Any other that died stays off until an operator, its
BMC or its power strip switches it on.
"""

from __future__ import annotations

import asyncio
import time
import uuid

import structlog

from mooring.cluster.layout import Layout
from mooring.cluster.machines.interface import Boot, Ending, Links, Machine, Power
from mooring.cluster.machines.system_uuid import system_uuid
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import DeviceStillInUse
from mooring.volumes.plugins.disk_array import DiskArray

log = structlog.get_logger(component="cluster")

CLEAN_STOP_S = 60.0
RESTART_S = 0.5
AGAIN_S = 5.0
"""From one failed boot to the next."""
RELEASE_S = 10.0


class NodeMachine:
    """A node's machine. `on` says whether it is meant to have power; `power` whether it has."""

    def __init__(self, machine: Machine, layout: Layout, array: DiskArray) -> None:
        self.machine = machine
        self.name = machine.name
        self.on = False
        self._layout = layout
        self._array = array
        self._watcher: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()  # one change of power at a time
        self._given_up = asyncio.Event()

    @property
    def links(self) -> Links:
        """Its cable."""
        return self.machine.links

    @property
    def power(self) -> Power:
        """As the machine's live processes show it."""
        return self.machine.power()

    async def start(self) -> None:
        """Powers on: a new boot. Nothing happens if it is on."""
        async with self._lock:
            if not self.on:
                await self._boot()

    async def stop(self, *, grace: float = CLEAN_STOP_S) -> bool:
        """Presses the power button and waits up to `grace` seconds; then the power is cut. True if it went
        cleanly."""
        async with self._lock:
            if not self.on:
                return True
            self.on = False
            await self.machine.press_power_button()
            clean = await self._ends_within(grace)
            if not clean:
                why = "as ordered" if self._given_up.is_set() else f"not off after {grace:g} s"
                log.warning("did not shut down: its power is cut", node=self.name, why=why)
            await self._cut()
            return clean

    async def _ends_within(self, seconds: float) -> bool:
        off = asyncio.create_task(self.machine.until_off())
        given_up = asyncio.create_task(self._given_up.wait())
        try:
            await asyncio.wait((off, given_up), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return off.done()
        finally:
            off.cancel()
            given_up.cancel()

    async def lose_power(self) -> None:
        """Power loss: what was not synced is gone."""
        async with self._lock:
            self.on = False
            await self._cut()

    async def reset(self) -> None:
        """Power loss and a new boot, with no other change of power between."""
        async with self._lock:
            self.on = False
            await self._cut()
            await self._boot()

    async def panic(self) -> None:
        """Its kernel stops. It stays off."""
        async with self._lock:
            self.on = False
            await self.machine.panic()
            await self._cut()

    async def heal(self) -> None:
        """Its links are whole, and what was done to it on purpose is undone."""
        await self.links.heal()
        if self.power is Power.ON:
            await self.machine.heal()

    async def troubles(self) -> list[str]:
        """What is wrong with it and its links on purpose."""
        return [*await blocking(self.machine.troubles), *await self.links.state()]

    def cut_now(self) -> None:
        """Lets a clean stop that is under way wait no longer."""
        self._given_up.set()

    async def _boot(self) -> None:
        """Raises what keeps the machine from it: then nothing of it runs."""
        self._given_up.clear()
        if self.power is Power.ON:  # what an earlier order could not end would run beside it
            await self._cut()
        self._layout.node(self.name).mkdir(parents=True, exist_ok=True)
        boot = self._next_boot()
        await blocking(self._array.power_on, self.name)
        await self.links.renew()
        try:
            await self.machine.boot(boot)
        except BaseException:
            await self._cut()
            raise
        self.on = True
        log.info("power on", node=self.name, boot_id=boot.boot_id)
        self._watcher = asyncio.create_task(self._watch(), name=f"watch {self.name}")

    def _next_boot(self) -> Boot:
        """The boot before is certainly over: this machine is off."""
        directory = self._layout.node(self.name)
        record = directory / "boot-id"
        ended = record.read_text() if record.exists() else ""
        boot = Boot(str(uuid.uuid4()), ended, str(system_uuid(directory)))
        record.write_text(boot.boot_id)
        return boot

    async def _cut(self) -> None:
        if self._watcher is not None and self._watcher is not asyncio.current_task():
            self._watcher.cancel()
        await self.machine.cut_power()
        await blocking(take_devices, self._array, self.name)

    async def _watch(self) -> None:
        ending = await self.machine.until_off()
        async with self._lock:
            if not self.on:
                return
            if ending is Ending.RESET or (ending is Ending.DIED and self.machine.kind == "namespace"):
                log.warning("machine died: it boots again", node=self.name, ending=ending.value)
                boots = await self._boots()
            else:
                log.warning("machine is off", node=self.name, ending=ending.value)
                self.on = False
                await self._cut()
                return
        while not boots:  # an order to switch it off ends this
            await asyncio.sleep(AGAIN_S)
            async with self._lock:
                boots = await self._boots()

    async def _boots(self) -> bool:
        """Tries to boot, with nothing left of the boot before. It is meant to have power also if that
        fails."""
        self.on = False
        try:
            await self._cut()
            await asyncio.sleep(RESTART_S)
            await self._boot()
        except Exception as error:  # a full disk, a kernel that does not end: whatever it is may pass
            log.error("machine does not boot: tried again", node=self.name, why=str(error))
            self.on = True
            return False
        return True


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
