"""The devices of a running cluster: starts their processes and their door, and takes them down."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.bmc import ipmi
from mooring.cluster.machines.bmc.door import Door, serving
from mooring.cluster.machines.bmc.inventory import LOOPBACK, Inventory, Paths, make
from mooring.cluster.machines.bmc.misbehaving import Misbehaving, Rule
from mooring.cluster.machines.bmc.power_switch import Device, PowerSwitch, Verb
from mooring.cluster.machines.system_uuid import system_uuid
from mooring.cluster.processes import Part, mooring
from mooring.cluster.together import together
from mooring.mounts.blocking import blocking

READY_S = 20.0


def directory(layout: Layout) -> Path:
    """Where all of it is kept."""
    return layout.root / "bmc"


class Bmcs:
    """One for a run of `mooring up`: `start`, then `stop`, which also cleans up after a failed `start`."""

    def __init__(self, layout: Layout, switch: PowerSwitch, address: str = LOOPBACK) -> None:
        """All devices listen on `address`."""
        self._layout = layout
        self._paths = Paths(directory(layout))
        self._switch = switch
        self._address = address
        self._devices = Misbehaving(switch)
        self._stack = contextlib.AsyncExitStack()
        self._ipmi: dict[str, Part] = {}
        self._served: Part | None = None
        self._lock = asyncio.Lock()  # one change of a rule at a time

    async def start(self) -> None:
        """Returns when all devices can be asked. Raises ClusterError."""
        ipmi.check()
        inventory = await blocking(self._prepare)
        door = Door(self._devices, self._change)
        await self._stack.enter_async_context(serving(self._paths.door, door))
        for machine in inventory.machines:
            self._ipmi[machine.name] = ipmi.part(self._paths, machine, self._layout.run, self._layout.logs)
        command = mooring("machine", "serve-devices", str(self._paths.root))
        self._served = Part("bmc", command, run=self._layout.run, logs=self._layout.logs)
        await together(*(part.start() for part in self._parts()))
        await self._until_ready(inventory)

    async def says(self, machine: str) -> str:
        """What its BMC answers to the question for its power, true or not. Raises DeviceError; never returns
        if the BMC is silent."""
        return await self._devices.ask(Device.BMC, machine, Verb.POWER)

    def _parts(self) -> list[Part]:
        return [*self._ipmi.values(), *([self._served] if self._served else [])]

    def _prepare(self) -> Inventory:
        uuids = {name: system_uuid(self._layout.node(name)) for name in self._switch.machines()}
        inventory = make(self._paths, uuids, self._address)
        for machine in inventory.machines:
            ipmi.prepare(self._paths, inventory.address, machine)
        return inventory

    async def stop(self) -> None:
        """Takes all of it down."""
        await together(*(part.kill() for part in self._parts()))  # they have nothing to lose
        for machine in self._ipmi:
            self._devices.set(Device, machine, None)
        self._ipmi, self._served = {}, None
        await self._stack.aclose()

    async def _until_ready(self, inventory: Inventory) -> None:
        deadline = asyncio.get_running_loop().time() + READY_S
        waiting = _sockets(inventory)
        while waiting := [each for each in waiting if not _listens(inventory.address, *each)]:
            restarted = [part.name for part in self._parts() if part.restarts]
            if restarted or asyncio.get_running_loop().time() > deadline:
                names = restarted or [part.name for part in self._parts()]
                logs = ", ".join(str(self._layout.logs / f"{name}.log") for name in names)
                raise ClusterError(f"the machines' BMCs do not come up; see {logs}")
            await asyncio.sleep(0.05)

    async def _change(self, machine: str, devices: Sequence[Device], rule: Rule | None) -> None:
        async with self._lock:
            if Device.BMC in devices and self._devices.rules(machine).get(Device.BMC) is not None:
                # What clients have sent again while ipmi_sim was held up must not be done now.
                await self._ipmi[machine].kill()
                self._devices.set(devices, machine, rule)
                await self._ipmi[machine].start()
            else:
                self._devices.set(devices, machine, rule)


def _sockets(inventory: Inventory) -> list[tuple[str, int]]:
    """Protocol and port of each."""
    machines = inventory.machines
    udp = [inventory.strip_port, inventory.switch_port, *(machine.ipmi_port for machine in machines)]
    return [("udp", port) for port in udp] + [("tcp", machine.redfish_port) for machine in machines]


def _listens(address: str, protocol: str, port: int) -> bool:
    """Whether it is bound, as the kernel lists it."""
    wanted = f"{socket.inet_aton(address)[::-1].hex().upper()}:{port:04X}"
    lines = Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]
    return any(line.split()[1] == wanted for line in lines)
