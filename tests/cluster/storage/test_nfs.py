"""An NFS server's machine boots again whenever it goes off, whatever keeps it from that for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from mooring.cluster.layout import Layout
from mooring.cluster.machines.wire import Unanswered
from mooring.cluster.storage import nfs
from mooring.cluster.storage.record import Kind, Server


class Played:
    """A machine whose next boots, and ends, may fail."""

    def __init__(self) -> None:
        self.boots = 0
        self.failures: Iterator[Exception] = iter(())
        self.stuck: Iterator[Exception] = iter(())
        self.off = asyncio.Event()

    async def boot(self, boot: object) -> None:
        if (failure := next(self.failures, None)) is not None:
            raise failure
        self.off.clear()
        self.boots += 1

    async def run(self, script: str) -> tuple[int, str]:
        return 0, ""

    async def until_off(self) -> str:
        await self.off.wait()
        return "died"

    async def press_power_button(self) -> None:
        self.off.set()

    async def cut_power(self) -> None:
        if (failure := next(self.stuck, None)) is not None:
            raise failure
        self.off.set()


@pytest.mark.parametrize(
    "failures", [[OSError(28, "No space left on device")], [Unanswered("plugged: it went off")]]
)
async def test_one_whose_machine_cannot_boot_again_for_a_while_is_tried_again(
    failures: list[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    machine = Played()
    server = await started(machine, tmp_path, monkeypatch)
    machine.failures = iter(failures)
    machine.off.set()
    await again(machine)
    await server.stop()


async def test_one_whose_machine_the_kernel_does_not_end_for_a_while_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    machine = Played()
    server = await started(machine, tmp_path, monkeypatch)
    machine.stuck = iter([TimeoutError("processes 7 do not end, even by SIGKILL")])
    machine.off.set()
    await again(machine)
    await server.stop()


async def started(machine: Played, root: Path, monkeypatch: pytest.MonkeyPatch) -> nfs.NfsServer:
    def give(*_: Any) -> object:
        return object()

    def make(*_: Any, **__: Any) -> Played:
        return machine

    for name, stands_for in (("give_machine", give), ("cgroup.of", give), ("UmlMachine", make)):
        monkeypatch.setattr(f"mooring.cluster.storage.nfs.{name}", stands_for)
    monkeypatch.setattr(nfs, "AGAIN_S", 0.01)
    address = IPv4Address("10.88.250.1")
    server = nfs.NfsServer(
        Server(Kind.NFS, "files", 1 << 30, 1, address), root, Layout(root), IPv4Network("10.88.0.0/16")
    )
    await server.start()
    return server


async def again(machine: Played) -> None:
    async with asyncio.timeout(10):
        while machine.boots < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
