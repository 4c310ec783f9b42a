"""The power switch over machines: what holds when several devices give orders at once, or a machine does not
obey."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from heartbeat_machine import RememberedLinks

from mooring.cluster.machines.bmc.machine_switch import MachineSwitch
from mooring.cluster.machines.bmc.power_switch import DeviceError, PortState
from mooring.cluster.machines.interface import Cut, Far, Links, NotPossible, Power


class Slow:
    """A machine that needs a second for everything."""

    def __init__(self) -> None:
        self.power = Power.ON
        self.obeys = True
        self.done: list[str] = []

    async def start(self) -> None:
        await asyncio.sleep(1)
        self.power = Power.ON
        self.done.append("on")

    async def stop(self) -> bool:
        await asyncio.sleep(60)
        raise OSError("it hangs")

    async def lose_power(self) -> None:
        await asyncio.sleep(1)
        self.power = Power.OFF if self.obeys else Power.ON
        self.done.append("off")


def switch(machine: Slow, links: Links | None = None) -> MachineSwitch:
    machine.links = links
    return MachineSwitch({"a": machine})


def test_a_machine_that_was_told_off_while_it_is_reset_ends_off(run: Callable[..., Any]):
    machine = Slow()
    devices = switch(machine)

    async def story() -> None:
        reset = asyncio.create_task(devices.reset("a"))
        await asyncio.sleep(0.5)
        await devices.turn_off("a")
        assert machine.power is Power.OFF
        await reset

    run(story())
    assert machine.done == ["off", "on", "off"]


def test_a_reset_that_waited_for_an_off_switches_nothing_on(run: Callable[..., Any]):
    machine = Slow()
    devices = switch(machine)

    async def story() -> None:
        off = asyncio.create_task(devices.turn_off("a"))
        await asyncio.sleep(0.5)
        await devices.reset("a")
        await off

    run(story())
    assert machine.done == ["off"]


def test_off_is_not_answered_for_a_machine_that_goes_on(run: Callable[..., Any]):
    machine = Slow()
    machine.obeys = False
    for order in (switch(machine).turn_off, switch(machine).reset):
        with pytest.raises(DeviceError, match="a: its power was cut, and processes of it still run"):
            run(order("a"))
    assert run(switch(machine).power("a")) is Power.ON


def test_the_button_is_answered_at_once_and_what_comes_of_it_hurts_nothing(run: Callable[..., Any]):
    machine = Slow()

    async def story() -> None:
        await asyncio.wait_for(switch(machine).press_button("a"), 0.1)
        await asyncio.sleep(100)

    run(story())
    machine.power = Power.OFF
    run(switch(machine).press_button("a"))


def test_a_port_is_set_and_read_and_its_cut_healed(run: Callable[..., Any]):
    links = RememberedLinks()
    devices = switch(Slow(), links)

    async def story() -> list[PortState]:
        found = [await devices.port("a")]
        for state in (PortState.DOWN, PortState.DOWN, PortState.UP):
            await devices.set_port("a", state)
            found.append(await devices.port("a"))
        return found

    assert run(story()) == ["up", "down", "down", "up"]
    assert links.cuts == []


def test_a_cut_by_other_means_is_not_the_ports(run: Callable[..., Any]):
    links = RememberedLinks()
    run(links.cut(Cut()))
    assert run(switch(Slow(), links).port("a")) is PortState.UP


def test_a_port_whose_link_was_healed_and_then_cut_from_less_is_not_down(run: Callable[..., Any]):
    links = RememberedLinks()
    devices = switch(Slow(), links)

    async def story() -> list[PortState]:
        await links.cut(Cut(Far.PEERS))
        await devices.set_port("a", PortState.DOWN)
        down = await devices.port("a")
        await links.heal()
        await links.cut(Cut(Far.PEERS))
        return [down, await devices.port("a")]

    assert run(story()) == ["down", "up"]


class DeadLinks(RememberedLinks):
    async def cut(self, cut: Cut) -> None: ...


def test_a_port_is_not_said_to_be_down_if_nothing_was_cut(run: Callable[..., Any]):
    devices = switch(Slow(), DeadLinks())
    with pytest.raises(DeviceError, match="a: its link was cut, and is not"):
        run(devices.set_port("a", PortState.DOWN))
    assert run(devices.port("a")) is PortState.UP


class NoLinks(RememberedLinks):
    async def cut(self, cut: Cut) -> None:
        raise NotPossible("namespace machines have no cable: it shares the host's")


def test_a_machine_without_a_cable_refuses_and_is_not_told_to_be_down(run: Callable[..., Any]):
    devices = switch(Slow(), NoLinks())
    with pytest.raises(DeviceError, match="cable"):
        run(devices.set_port("a", PortState.DOWN))
    assert run(devices.port("a")) is PortState.UP
