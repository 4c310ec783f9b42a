"""What the cloud orders of its instances, the machines do; all else is refused with a reason."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.cloud.interface import PowerUnknown
from mooring.cloud.power import SocketPower
from mooring.cluster.instance_power import LONGEST, obey, serving
from mooring.cluster.machines.bmc.power_switch import DeviceError

NODES = {"i-1": "node-1"}


class Switch:
    """A power switch that notes what it is told; `broken`: it raises that."""

    def __init__(self, broken: Exception | None = None) -> None:
        self.done: list[str] = []
        self._broken = broken

    async def turn_on(self, machine: str) -> None:
        await self._do(f"on {machine}")

    async def turn_off(self, machine: str) -> None:
        await self._do(f"off {machine}")

    async def _do(self, what: str) -> None:
        if self._broken is not None:
            raise self._broken
        self.done.append(what)


async def test_an_order_of_the_cloud_reaches_the_machine_also_by_a_long_path(tmp_path: Path):
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    switch, path = Switch(), directory / "power.sock"
    async with serving(path, NODES, switch):  # type: ignore[arg-type]
        power = SocketPower(str(path))
        await power.off("i-1")
        await power.on("i-1")
        assert path.stat().st_mode & 0o077 == 0
    assert switch.done == ["off node-1", "on node-1"]
    assert not path.exists()


@pytest.mark.parametrize(
    "error", [DeviceError("it still runs"), TimeoutError("late"), ValueError("a\nfault")]
)
async def test_what_went_wrong_is_not_taken_for_done(tmp_path: Path, error: Exception):
    path = tmp_path / "s"
    async with serving(path, NODES, Switch(error)):  # type: ignore[arg-type]
        with pytest.raises(PowerUnknown, match=str(error).split("\n")[0]):
            await SocketPower(str(path)).off("i-1")


@pytest.mark.parametrize("line", [b"", b"off", b"reset i-1", b"off i-2", b"off i-1 now", b"\xff\xfe off i-1"])
async def test_what_is_no_order_does_nothing(line: bytes):
    switch = Switch()
    assert await obey(line, NODES, switch) != "done"  # type: ignore[arg-type]
    assert not switch.done


async def test_a_line_without_an_end_is_refused(tmp_path: Path):
    path = tmp_path / "s"
    async with serving(path, NODES, Switch()):  # type: ignore[arg-type]
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"x" * (3 * LONGEST))
        assert b"at most" in await reader.readline()
        writer.close()
