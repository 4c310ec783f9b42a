"""Instances that have machines: what EC2 tells of them is true of their power."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from virtual_cloud import VirtualCloud

from mooring.cloud.interface import Power, PowerUnknown
from mooring.cloud.power import SocketPower


class Machines(Power):
    """As a rack: who is on; while `fails`, nothing is done."""

    def __init__(self) -> None:
        self.lit: set[str] = set()
        self.fails = False
        self.orders: list[str] = []

    async def on(self, instance_id: str) -> None:
        self._order("on")
        self.lit.add(instance_id)

    async def off(self, instance_id: str) -> None:
        self._order("off")
        self.lit.discard(instance_id)

    def _order(self, order: str) -> None:
        self.orders.append(order)
        if self.fails:
            raise PowerUnknown("it does not answer")


async def state(world: VirtualCloud, instance: str) -> str:
    answer = await world("DescribeInstances", InstanceIds=[instance])
    return answer["Reservations"][0]["Instances"][0]["State"]["Name"]


@pytest.mark.parametrize("action", ["StopInstances", "TerminateInstances"])
async def test_an_instance_is_stopped_or_terminated_when_its_machine_has_no_power(action: str):
    machines = Machines()
    world = VirtualCloud(power=machines)
    [instance] = world.cloud.launch(1)
    machines.lit, machines.fails = {instance}, True
    await world(action, InstanceIds=[instance])
    await world.wait(30)
    assert await state(world, instance) in ("stopping", "shutting-down")
    assert len(machines.orders) > 1
    machines.fails = False
    await world.wait(5)
    assert await state(world, instance) in ("stopped", "terminated")
    assert machines.lit == set()


async def test_a_start_switches_the_machine_on():
    machines = Machines()
    world = VirtualCloud(power=machines)
    [instance] = world.cloud.launch(1)
    await world("StopInstances", InstanceIds=[instance])
    await world.wait(20)
    await world("StartInstances", InstanceIds=[instance])
    await world.wait(20)
    assert (await state(world, instance), machines.lit) == ("running", {instance})


async def test_a_machine_is_switched_at_a_socket(tmp_path: Path):
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode())
        writer.write(b"done\n" if asked[-1].startswith("off") else b"no such machine\n")
        writer.close()

    socket = str(tmp_path / "power.sock")
    with pytest.raises(PowerUnknown, match=socket):
        await SocketPower(socket).off("i-1")
    async with await asyncio.start_unix_server(answer, socket):
        await SocketPower(socket).off("i-1")
        with pytest.raises(PowerUnknown, match="no such machine"):
            await SocketPower(socket).on("i-2")
    assert asked == ["off i-1\n", "on i-2\n"]


async def test_a_socket_that_says_too_much_or_nothing_is_unknown(tmp_path: Path):
    answers = [b"", b"x" * 100_000]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answers.pop())
        writer.close()

    socket = str(tmp_path / "power.sock")
    async with await asyncio.start_unix_server(answer, socket):
        for _ in range(2):
            with pytest.raises(PowerUnknown):
                await SocketPower(socket).off("i-1")
