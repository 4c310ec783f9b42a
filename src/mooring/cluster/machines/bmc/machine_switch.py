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
        self._down: set[str] = set()
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
        """Down if it was set so and the link is still cut: it may have been healed by other means."""
        if machine in self._down and any(
            line.startswith("cut") for line in await self._link(machine).state()
        ):
            return PortState.DOWN
        self._down.discard(machine)
        return PortState.UP

    async def set_port(self, machine: str, state: PortState) -> None:
        links = self._link(machine)
        try:
            if state is PortState.DOWN:
                await links.cut(Cut())
                self._down.add(machine)
            else:
                await links.heal()
                self._down.discard(machine)
        except NotPossible as error:
            raise DeviceError(str(error)) from error

    def _link(self, machine: str) -> Links:
        links = self._links(machine)
        if links is None:
            raise DeviceError(f"{machine} has no cable of its own that the switch could cut")
        return links
