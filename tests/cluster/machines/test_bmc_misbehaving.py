"""The rules by which devices misbehave: what is done, and what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines.bmc.misbehaving import Late, Misbehaving, Refusing, Rule, Silent, Wrong, parse
from mooring.cluster.machines.bmc.power_switch import Device, DeviceError, PortState, Silence, Verb
from mooring.cluster.machines.interface import Power

CHANGES = [verb for verb in Verb if verb not in (Verb.POWER, Verb.PORT)]
MACHINES = ("a", "b")


class Recorded:
    """A power switch that notes what is done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def machines(self) -> Collection[str]:
        return MACHINES

    async def power(self, machine: str) -> Power:
        return Power.ON if machine == "a" else Power.OFF

    async def turn_on(self, machine: str) -> None:
        self.done.append(f"on {machine}")

    async def turn_off(self, machine: str) -> None:
        self.done.append(f"off {machine}")

    async def reset(self, machine: str) -> None:
        self.done.append(f"reset {machine}")

    async def press_button(self, machine: str) -> None:
        self.done.append(f"button {machine}")

    async def port(self, machine: str) -> PortState:
        return PortState.UP if machine == "a" else PortState.DOWN

    async def set_port(self, machine: str, state: PortState) -> None:
        self.done.append(f"{state} {machine}")


def behaving(how: str, *devices: Device) -> tuple[Recorded, Misbehaving]:
    switch = Recorded()
    found = Misbehaving(switch)
    found.set(devices or tuple(Device), "a", parse(how, MACHINES))
    return switch, found


@pytest.mark.parametrize("device", Device)
@pytest.mark.parametrize("verb", CHANGES)
def test_without_a_rule_the_order_is_done(run: Callable[..., Any], device: Device, verb: Verb):
    switch, devices = behaving("none")
    assert run(devices.ask(device, "a", verb)) == "done"
    assert switch.done == [f"{verb} a"]


@pytest.mark.parametrize("device", Device)
@pytest.mark.parametrize("verb", CHANGES)
def test_a_liar_does_nothing_and_says_that_it_did(run: Callable[..., Any], device: Device, verb: Verb):
    switch, devices = behaving("lie")
    assert run(devices.ask(device, "a", verb)) == "done"
    assert switch.done == []


@pytest.mark.parametrize(
    ("order", "question", "claim"),
    [
        (Verb.OFF, Verb.POWER, "off"),
        (Verb.BUTTON, Verb.POWER, "off"),
        (Verb.ON, Verb.POWER, "on"),
        (Verb.RESET, Verb.POWER, "on"),
        (Verb.DOWN, Verb.PORT, "down"),
        (Verb.UP, Verb.PORT, "up"),
    ],
)
def test_a_liar_goes_on_saying_so_until_the_rule_goes(
    run: Callable[..., Any], order: Verb, question: Verb, claim: str
):
    _, devices = behaving("lie")

    async def story() -> list[str]:
        await devices.ask(Device.BMC, "a", order)
        lied = await devices.ask(Device.BMC, "a", question)
        other = await devices.ask(Device.STRIP, "a", question)
        devices.set([Device.BMC], "a", None)
        return [lied, other, await devices.ask(Device.BMC, "a", question)]

    truth = "up" if question is Verb.PORT else "on"
    assert run(story()) == [claim, truth, truth]


@pytest.mark.parametrize("verb", Verb)
def test_a_refusing_device_refuses_everything(run: Callable[..., Any], verb: Verb):
    switch, devices = behaving("refuse")
    with pytest.raises(DeviceError, match="a: the device refuses"):
        run(devices.ask(Device.BMC, "a", verb))
    assert switch.done == []


@pytest.mark.parametrize("verb", CHANGES)
def test_a_wrong_device_does_it_to_the_other_machine(run: Callable[..., Any], verb: Verb):
    switch, devices = behaving("wrong=b")
    run(devices.ask(Device.STRIP, "a", verb))
    assert switch.done == [f"{verb} b"]
    assert run(devices.ask(Device.STRIP, "a", Verb.POWER)) == "off"
    assert run(devices.ask(Device.STRIP, "a", Verb.PORT)) == "down"


def test_a_late_device_does_it_when_its_time_has_come_and_not_before(run: Callable[..., Any]):
    switch, devices = behaving("late=5s")

    async def story() -> None:
        asked = asyncio.create_task(devices.ask(Device.BMC, "a", Verb.OFF))
        await asyncio.sleep(4.9)
        assert switch.done == []
        await asyncio.sleep(0.2)
        assert switch.done == ["off a"]
        assert await asked == "done"

    run(story())


def test_a_silent_device_never_answers_and_does_nothing_even_after_the_rule_is_gone(run: Callable[..., Any]):
    switch, devices = behaving("silent")

    async def story() -> None:
        asked = asyncio.create_task(devices.ask(Device.BMC, "a", Verb.OFF))
        await asyncio.sleep(3600)
        assert not asked.done()
        devices.set([Device.BMC], "a", None)
        with pytest.raises(Silence):
            await asked

    run(story())
    assert switch.done == []


def test_a_rule_is_for_its_devices_and_its_machine_only(run: Callable[..., Any]):
    switch, devices = behaving("lie", Device.STRIP)
    run(devices.ask(Device.BMC, "a", Verb.OFF))
    run(devices.ask(Device.STRIP, "b", Verb.OFF))
    assert switch.done == ["off a", "off b"]
    assert {device: str(rule) for device, rule in devices.rules("a").items()} == {"strip": "lie"}
    assert devices.rules("b") == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("none", None),
        ("silent", Silent()),
        ("refuse", Refusing()),
        ("late=5s", Late(5)),
        ("late=0.25", Late(0.25)),
        ("late=3600s", Late(3600)),
        ("wrong=b", Wrong("b")),
    ],
)
def test_a_rule_is_read_as_it_is_written(text: str, rule: Rule | None):
    assert parse(text, MACHINES) == rule
    if rule is not None:
        assert parse(str(rule), MACHINES) == rule


@pytest.mark.parametrize(
    "text", ["", "late", "late=", "late=-1s", "late=5m", "late=1e3", "late=3601s", "wrong=", "wrong=c", "LIE"]
)
def test_what_is_no_rule_is_refused_in_one_line(text: str):
    with pytest.raises(ValueError) as error:
        parse(text, MACHINES)
    assert "\n" not in str(error.value)


@given(st.text(max_size=2000))
def test_any_text_is_a_rule_or_is_refused_by_a_short_message(text: str):
    try:
        parse(text, MACHINES)
    except ValueError as error:
        assert len(str(error)) < 1000
