"""A rack: machines that are real processes in real cgroups, behind real BMCs, a power strip and a switch."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from heartbeat_machine import HeartbeatMachine

from mooring.cluster.layout import Layout
from mooring.cluster.machines import cgroup
from mooring.cluster.machines.bmc import door
from mooring.cluster.machines.bmc.bmcs import Bmcs, directory
from mooring.cluster.machines.bmc.inventory import LOOPBACK, Paths, load
from mooring.cluster.machines.bmc.machine_switch import MachineSwitch
from mooring.cluster.machines.bmc.reach import reach

PACKAGES = {"ipmitool": "ipmitool", "fence_": "fence-agents", "ipmi_sim": "openipmi", "snmp": "snmp"}


def need(program: str) -> None:
    """Skips the test if a program is missing."""
    if shutil.which(program) is None:
        package = next(package for prefix, package in PACKAGES.items() if program.startswith(prefix))
        pytest.skip(f"needs {program}: apt-get install {package}")


class Rack:
    """Two machines and their devices, as a user meets them."""

    def __init__(self, root: Path, address: str = LOOPBACK) -> None:
        self.layout = Layout(root)
        self.layout.make()
        self.machines = {name: HeartbeatMachine(name, root) for name in ("node-1", "node-2")}
        self.bmcs = Bmcs(self.layout, MachineSwitch(self.machines), address)
        self.paths = Paths(directory(self.layout))

    async def start(self) -> None:
        for machine in self.machines.values():
            await machine.start()
        await self.bmcs.start()

    async def stop(self) -> None:
        await self.bmcs.stop()
        for machine in self.machines.values():
            await machine.destroy()
        cgroup.remove_empty(self.layout.root)

    def reach(self, machine: str = "node-1") -> dict[str, Any]:
        """What `mooring machine bmc -o json` prints."""
        inventory = load(self.paths)
        assert inventory is not None
        return reach(self.paths, inventory, {each.name: each for each in inventory.machines}[machine])

    def command(self, program: str, action: str, machine: str = "node-1") -> list[str]:
        """The printed command line, with `action` in the place of `status`."""
        need(program)
        words = shlex.split(self.reach(machine)["commands"][program])
        assert words[-1] == "status"
        return [*words[:-1], action]

    async def do(self, program: str, action: str, *more: str, machine: str = "node-1") -> tuple[int, str]:
        """Runs it; exit status and output."""
        command = [*self.command(program, action, machine), *more]
        environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
        while "=" in command[0] and not command[0].startswith("/"):
            name, value = command.pop(0).split("=", 1)
            environ[name] = value
        process = await asyncio.create_subprocess_exec(
            *command, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    async def misbehave(self, how: str, *devices: str, machine: str = "node-1") -> None:
        await door.ask(self.paths.door, " ".join(["set", machine, how, *devices]))

    async def truth(self, machine: str = "node-1") -> str:
        return await door.ask(self.paths.door, f"truth {machine} power")


@pytest.fixture
async def rack(tmp_path: Path) -> AsyncIterator[Rack]:
    need("ipmi_sim")
    rack = Rack(tmp_path / "data")
    try:
        await rack.start()
        yield rack
    finally:
        await rack.stop()
