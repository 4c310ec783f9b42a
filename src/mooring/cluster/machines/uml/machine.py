"""A User-mode Linux as a machine.

Killing its kernel alone would leave helpers that go on writing: its cgroup is what ends. Its disks are loop
devices of the host, plugged in while it runs; its kernel refuses to give one back that is open.
"""

from __future__ import annotations

import contextlib
import shutil
import signal

from mooring.cluster.machines.boot_orders import Fittings
from mooring.cluster.machines.interface import DiskInUse, Ending, NotPossible
from mooring.cluster.machines.own_kernel import OwnKernelMachine
from mooring.cluster.machines.uml import mconsole
from mooring.cluster.machines.uml.io_helpers import io_helpers
from mooring.cluster.machines.uml.kernel import MOST_DISKS, Kernel
from mooring.cluster.machines.view import FIRST_PROCESS
from mooring.cluster.processes import Running
from mooring.mounts.blocking import blocking

LETTERS = "bcdefghijklmnop"


class UmlMachine(OwnKernelMachine):
    """A machine that is a process with a Linux in it."""

    kind = "uml"
    fittings = Fittings(
        ("hostfs", "none", "/share"), "/dev/ttyS0", "/usr/lib/uml/modules/RELEASE", "/dev/ubda", "vec0"
    )
    _helpers: tuple[Running, ...] = ()

    def _prepare(self) -> None:
        shutil.rmtree(self._directory / self.name, ignore_errors=True)  # of the kernel before

    def _launch(self) -> list[str]:
        kernel = Kernel(
            self.name,
            self._directory,
            self._directory / "view",
            self._memory,
            self._directory / "state",
            self._network.tap if self._network else None,
        )
        return self._launched_by("uml.launcher", kernel.command(FIRST_PROCESS))

    async def _is_off(self) -> None:
        self._helpers = ()

    def _ending(self) -> Ending:
        return ending(self._last_words())

    async def _plug_in(self, disk: str, device: str) -> None:
        names = [f"ubd{letter}" for letter in LETTERS]
        name = next((each for each in names if each not in self._plugged.values()), None)
        if name is None:
            raise NotPossible(f"{self.name} has {MOST_DISKS} disks, and its kernel takes no more")
        self._plugged[disk] = name
        await self._order(f"config {name}={device}")

    async def _pull_out(self, disk: str) -> None:
        try:
            await self._order(f"remove {self._plugged[disk]}")
        except mconsole.Refused as error:
            if "open" not in str(error).lower():
                raise
            raise DiskInUse(f"the kernel of {self.name} has it open") from error

    async def _order(self, command: str) -> str:
        return await blocking(mconsole.order, self._directory / self.name / "mconsole", command)

    async def panic(self) -> None:
        with contextlib.suppress(mconsole.NoAnswer):  # it has not the time to answer
            await self._order("sysrq c")

    async def hang(self) -> None:
        self._helpers = tuple(await blocking(io_helpers, self._group))
        for helper in self._helpers:
            helper.send(signal.SIGSTOP)

    async def _let_io_go_on(self) -> None:
        for helper in self._helpers:
            helper.send(signal.SIGCONT)
        self._helpers = ()

    def _io_hangs(self) -> bool:
        return bool(self._helpers)


RESETS = ("Failed to exec kernel", "Initiating system reboot", "Restarting system")
"""The last that is read of a kernel which resets: itself, or its watchdog's timer, in whose interrupt it
may end before it says the first."""


def ending(console: str) -> Ending:
    """How the machine ended, by the last lines that its kernel printed."""
    if any(each in console for each in RESETS):
        return Ending.RESET
    return Ending.SHUT_DOWN if console.rstrip().endswith(("System halted", "Power down")) else Ending.DIED
