"""The door at which devices ask: its lines, and what is no line."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cluster.machines.test_bmc_misbehaving import Recorded

from mooring.cluster.machines.bmc import door
from mooring.cluster.machines.bmc.door import Door, NotServed, ask, serving
from mooring.cluster.machines.bmc.misbehaving import Misbehaving, Rule
from mooring.cluster.machines.bmc.power_switch import Device, DeviceError, Silence


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.switch = Recorded()
        self.devices = Misbehaving(self.switch)
        self.door = Door(self.devices, self._change)

    async def _change(self, machine: str, devices: Sequence[Device], rule: Rule | None) -> None:
        self.devices.set(devices, machine, rule)

    async def raw(self, sent: bytes, *, half: bool = False) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        try:
            writer.write(sent)
            if half:
                writer.write_eof()
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest.fixture
async def world(data_dir: Path) -> AsyncIterator[World]:
    world = World(data_dir / "bmc.sock")
    async with serving(world.path, world.door):
        yield world


async def test_a_device_asks_and_orders(world: World):
    assert await ask(world.path, "bmc a power") == "on"
    assert await ask(world.path, "strip b power") == "off"
    assert await ask(world.path, "bmc a off") == "done"
    assert world.switch.done == ["off a"]


async def test_rules_are_set_shown_and_taken_away(world: World):
    assert await ask(world.path, "rules a") == ""
    assert await ask(world.path, "set a lie bmc") == "lie"
    assert await ask(world.path, "set a late=5s strip switch") == "late=5s"
    assert await ask(world.path, "rules a") == "bmc=lie strip=late=5s switch=late=5s"
    assert await ask(world.path, "set a none") == "none"
    assert await ask(world.path, "rules a") == ""


async def test_the_truth_is_told_past_a_lie(world: World):
    await ask(world.path, "set a lie")
    await ask(world.path, "bmc a off")
    assert await ask(world.path, "bmc a power") == "off"
    assert await ask(world.path, "truth a power") == "on"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "is none of"),
        ("bmc a", "is none of"),
        ("bmc a off now", "is none of"),
        ("bmc c off", "no machine 'c' here: there are a, b"),
        ("rules c", "no machine 'c'"),
        ("truth c power", "no machine 'c'"),
        ("bmc a explode", "none of power"),
        ("oven a off", "'oven' is none of bmc, strip, switch"),
        ("set a sulk", "is no misbehaviour"),
        ("set a lie oven", "'oven' is none of"),
        ("set a wrong=c", "no machine 'c'"),
    ],
)
async def test_a_wrong_line_is_an_error_and_does_nothing(world: World, line: str, why: str):
    with pytest.raises(DeviceError, match=why):
        await ask(world.path, line)
    assert world.switch.done == []
    assert world.devices.rules("a") == {}


async def test_a_line_that_is_too_long_is_refused(world: World):
    assert (await world.raw(b"bmc a power " + b" " * 600 + b"\n")).startswith(b"error one line")
    await world.raw(b"bmc a off" + b" " * 100_000 + b"\n")
    assert await ask(world.path, "bmc a power") == "on"
    assert world.switch.done == []


async def test_half_a_line_is_no_order(world: World):
    await world.raw(b"bmc a off", half=True)
    assert world.switch.done == []


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=700))
def test_any_bytes_are_answered_in_one_line_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, sent: bytes
):
    async def story() -> tuple[bytes, str]:
        world = World(tmp_path_factory.mktemp("d") / "s")
        async with serving(world.path, world.door):
            return await world.raw(sent, half=True), await ask(world.path, "truth a power")

    reply, still = asyncio.run(story())
    assert reply.count(b"\n") <= 1
    assert still == "on"


async def test_only_the_owner_reaches_it(world: World):
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600


async def test_it_serves_no_more_than_so_many_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(door, "CONNECTIONS", 3)
    await ask(world.path, "set a silent bmc")
    silent = [asyncio.create_task(ask(world.path, "bmc a off")) for _ in range(3)]
    await asyncio.sleep(0.2)
    with pytest.raises(DeviceError, match="too many requests"):
        await ask(world.path, "bmc b power")
    assert await ask(world.path, "set a none") == "none"
    await asyncio.gather(*silent, return_exceptions=True)
    await asyncio.sleep(0.2)
    assert await ask(world.path, "bmc b power") == "off"


async def test_no_answer_in_time_is_silence(world: World):
    await ask(world.path, "set a silent")
    with pytest.raises(Silence):
        await ask(world.path, "bmc a power", 0.1)
    world.devices.set(list(Device), "a", None)


async def test_where_no_cluster_runs_there_is_nothing_to_ask(data_dir: Path):
    with pytest.raises(NotServed):
        await ask(data_dir / "bmc.sock", "bmc a power")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(data_dir / "bmc.sock"))
    with pytest.raises(NotServed):
        await ask(data_dir / "bmc.sock", "bmc a power")
