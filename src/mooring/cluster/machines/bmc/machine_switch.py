"""The power switch over the machines of a running `mooring up`: the only place here that knows
`NodeMachine`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import structlog

from mooring.cluster.machines.bmc.power_switch import DeviceError, PortState
from mooring.cluster.machines.interface import Cut, Links, NotPossible, Power

log = structlog.get_logger(component="bmc")


class SwitchedMachine(Protocol):
    """What is needed of a `NodeMachine`."""

    async def start(self) -> None: ...

    async def stop(self) -> bool: ...

    async def lose_power(self) -> None: ...


class MachineSwitch:
    """Implements `PowerSwitch`."""

    def __init__(
        self,
        machines: Mapping[str, SwitchedMachine],
        power: Callable[[str], Power],
        links: Callable[[str], Links | None],
    ) -> None:
        """`power` looks at a machine's live processes. `links` is its cable; None if its kind has none that
        could be cut."""
        self._machines, self._power, self._links = machines, power, links
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """So that no `reset` switches on what another device has just switched off."""
        self._down: dict[str, frozenset[str]] = {}
        """Machines whose port was set down, and what their links said of it then."""
        self._buttons: set[asyncio.Task[None]] = set()

    def machines(self) -> Collection[str]:
        return list(self._machines)

    async def power(self, machine: str) -> Power:
        return self._power(machine)

    async def turn_on(self, machine: str) -> None:
        async with self._locks[machine]:
            await self._machines[machine].start()

    async def turn_off(self, machine: str) -> None:
        async with self._locks[machine]:
            await self._cut(machine)

    async def reset(self, machine: str) -> None:
        async with self._locks[machine]:
            if self._power(machine) is Power.ON:
                await self._cut(machine)
                await self._machines[machine].start()

    async def _cut(self, machine: str) -> None:
        await self._machines[machine].lose_power()
        if self._power(machine) is not Power.OFF:
            raise DeviceError(f"{machine}: its power was cut, and processes of it still run")

    async def press_button(self, machine: str) -> None:
        if self._power(machine) is Power.ON:
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
        return frozenset(line for line in await self._link(machine).state() if line.startswith("cut"))

    async def set_port(self, machine: str, state: PortState) -> None:
        links = self._link(machine)
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

    def _link(self, machine: str) -> Links:
        links = self._links(machine)
        if links is None:
            raise DeviceError(f"{machine} has no cable of its own that the switch could cut")
        return links
