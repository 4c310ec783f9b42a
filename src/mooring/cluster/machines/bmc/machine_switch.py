"""The power switch over the machines of a running `mooring up`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping

import structlog

from mooring.cluster.machines.bmc.power_switch import DeviceError, PortState
from mooring.cluster.machines.interface import Cut, NotPossible, Power
from mooring.cluster.machines.node_machine import NodeMachine

log = structlog.get_logger(component="bmc")


class MachineSwitch:
    """Implements `PowerSwitch`."""

    def __init__(self, machines: Mapping[str, NodeMachine]) -> None:
        self._machines = machines
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """So that no `reset` switches on what another device has just switched off."""
        self._down: dict[str, frozenset[str]] = {}
        """Machines whose port was set down, and what their links said of it then."""
        self._buttons: set[asyncio.Task[None]] = set()

    def machines(self) -> Collection[str]:
        return list(self._machines)

    async def power(self, machine: str) -> Power:
        return self._machines[machine].power

    async def turn_on(self, machine: str) -> None:
        async with self._locks[machine]:
            await self._machines[machine].start()

    async def turn_off(self, machine: str) -> None:
        async with self._locks[machine]:
            await self._cut(machine)

    async def reset(self, machine: str) -> None:
        async with self._locks[machine]:
            if self._machines[machine].power is Power.ON:
                await self._cut(machine)
                await self._machines[machine].start()

    async def _cut(self, machine: str) -> None:
        await self._machines[machine].lose_power()
        if self._machines[machine].power is not Power.OFF:
            raise DeviceError(f"{machine}: its power was cut, and processes of it still run")

    async def press_button(self, machine: str) -> None:
        if self._machines[machine].power is Power.ON:
            task = asyncio.create_task(self._shut_down(machine), name=f"button of {machine}")
            self._buttons.add(task)
            task.add_done_callback(self._buttons.discard)

    async def _shut_down(self, machine: str) -> None:
        try:
            await self._machines[machine].stop()
        except Exception:
            log.exception("a machine does not shut down", node=machine)

    async def port(self, machine: str) -> PortState:
        """Down if it was set so and its link is still cut as it was then: it may have been healed by other
        means, and cut from something less."""
        if machine in self._down and self._down[machine] <= await self._cuts(machine):
            return PortState.DOWN
        self._down.pop(machine, None)
        return PortState.UP

    async def _cuts(self, machine: str) -> frozenset[str]:
        return frozenset(
            line for line in await self._machines[machine].links.state() if line.startswith("cut")
        )

    async def set_port(self, machine: str, state: PortState) -> None:
        links = self._machines[machine].links
        try:
            if state is PortState.DOWN:
                await links.cut(Cut())
                cuts = await self._cuts(machine)
                if not cuts:
                    raise DeviceError(f"{machine}: its link was cut, and is not")
                self._down[machine] = cuts
            else:
                await links.heal()
                self._down.pop(machine, None)
        except NotPossible as error:
            raise DeviceError(str(error)) from error
