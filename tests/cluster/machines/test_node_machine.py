"""A node's machine: a boot that fails leaves none that runs, and one that died is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.interface import Boot, Ending, Power
from mooring.cluster.machines.node_machine import NodeMachine
from mooring.volumes.plugins.disk_array import DiskArray


class Whole:
    """A cable with which nothing is wrong."""

    async def renew(self) -> None:
        return


class Played:
    """A machine of which `runs` says whether it has power; `failures` end its next boots, half way."""

    kind, name = "namespace", "node-1"

    def __init__(self) -> None:
        self.links = Whole()
        self.failures: Iterator[Exception] = iter(())
        self.boots: list[Boot] = []
        self.runs = asyncio.Event()
        self.off = asyncio.Event()
        self.twice = False

    async def boot(self, boot: Boot) -> None:
        self.twice |= self.runs.is_set()
        self.boots.append(boot)
        self.off.clear()
        self.runs.set()
        if (failure := next(self.failures, None)) is not None:
            raise failure

    async def cut_power(self) -> None:
        self.runs.clear()
        self.off.set()

    async def press_power_button(self) -> None:
        await self.cut_power()

    async def until_off(self) -> Ending:
        await self.off.wait()
        return Ending.DIED

    def power(self) -> Power:
        return Power.ON if self.runs.is_set() else Power.OFF


def of(machine: Played, root: Path) -> NodeMachine:
    layout = Layout(root)
    layout.make()
    return NodeMachine(machine, layout, DiskArray(layout.array))  # type: ignore[arg-type]


async def test_a_machine_whose_boot_fails_half_way_has_no_power(tmp_path: Path):
    """Its disks could not be plugged in: it would run beside its next boot, with the same disks."""
    machine = Played()
    machine.failures = iter([ClusterError("the disk cannot be plugged in")])
    node = of(machine, tmp_path)
    with pytest.raises(ClusterError, match="plugged"):
        await node.start()
    assert node.power is Power.OFF


async def test_a_machine_that_was_not_ended_does_not_run_beside_its_next_boot(tmp_path: Path):
    machine = Played()
    node = of(machine, tmp_path)
    await node.start()
    cut, machine.cut_power = machine.cut_power, hangs  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await node.lose_power()
    with pytest.raises(TimeoutError):
        await node.start()
    machine.cut_power = cut  # type: ignore[method-assign]
    await node.start()
    assert not machine.twice
    assert len(machine.boots) == 2
    await node.stop()


async def hangs() -> None:
    raise TimeoutError("process 7 does not end, even by SIGKILL")


async def test_a_machine_that_died_and_cannot_boot_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mooring.cluster.machines.node_machine.RESTART_S", 0)
    monkeypatch.setattr("mooring.cluster.machines.node_machine.AGAIN_S", 0.01)
    machine = Played()
    node = of(machine, tmp_path)
    await node.start()
    machine.failures = iter([OSError(28, "No space left on device"), ClusterError("it is not up")])
    await machine.cut_power()
    async with asyncio.timeout(30):
        while len(machine.boots) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert node.on
    await node.stop()
    assert node.power is Power.OFF


async def test_a_machine_that_cannot_boot_again_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mooring.cluster.machines.node_machine.RESTART_S", 0)
    monkeypatch.setattr("mooring.cluster.machines.node_machine.AGAIN_S", 0.01)
    machine = Played()
    node = of(machine, tmp_path)
    await node.start()
    machine.failures = iter(lambda: ClusterError("it is not up"), None)
    await machine.cut_power()
    while len(machine.boots) < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        await node.stop()
    assert not node.on


async def test_a_machine_that_died_and_does_not_let_its_devices_go_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mooring.cluster.machines.node_machine.RESTART_S", 0)
    monkeypatch.setattr("mooring.cluster.machines.node_machine.AGAIN_S", 0.01)
    machine = Played()
    node = of(machine, tmp_path)
    await node.start()
    cut, machine.cut_power = machine.cut_power, hangs  # type: ignore[method-assign]
    await cut()
    await asyncio.sleep(0.05)
    machine.cut_power = cut  # type: ignore[method-assign]
    async with asyncio.timeout(30):
        while len(machine.boots) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await node.stop()
