"""What all machines with a kernel of their own have in common.

Power off is the end of everything in the machine's cgroup. Its state is on a disk image of its own, the
host's files are its root, read-only (`view`); its first process (`guest`) is spoken to over a serial line.
Its watchdog is played here, outside of it, and ends all in its cgroup, also when that stands still.
How its kernel is started, how disks are plugged in, and how it panics and hangs is a kind's own.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import looking
from mooring.cluster.machines.boot_orders import (
    STATE_BYTES,
    Fittings,
    Guest,
    make_state,
    run_directory,
    write_orders,
)
from mooring.cluster.machines.cgroup import Cgroup
from mooring.cluster.machines.guest_program import command
from mooring.cluster.machines.interface import MOST_OUTPUT, RUN_S, Boot, Ending, Links, Machine, Power
from mooring.cluster.machines.links import NoLinks
from mooring.cluster.machines.network import MachineNetwork
from mooring.cluster.machines.watchdog import PlayedWatchdog
from mooring.cluster.machines.wire import Unanswered, Wire
from mooring.cluster.processes import Part
from mooring.mounts.blocking import blocking

log = structlog.get_logger(component="cluster")

MEMORY_BYTES = 384 << 20


class OwnKernelMachine(Machine, abc.ABC):
    """A machine with a Linux of its own."""

    fittings: Fittings
    up_s: float = 60.0
    """So long may a machine take until its first process says that it is up, in seconds."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        guest: Callable[[], Guest],
        *,
        group: Cgroup,
        network: MachineNetwork | None,
        memory: int = MEMORY_BYTES,
        state_bytes: int = STATE_BYTES,
    ) -> None:
        self.name = name
        self.links: Links = NoLinks(f"{name}: its link has no end")
        self.address = str(network.address) if network else "127.0.0.1"
        self._layout = layout
        self._guest = guest
        self._group = group
        self._network = network
        self._memory = memory
        self._state_bytes = state_bytes
        self._directory = run_directory(layout.root) / name
        self._home = layout.machine(name)
        self._wire = Wire(self._directory / "wire", self._told)
        self._up = asyncio.Event()
        self._part: Part | None = None
        self._disks: dict[str, tuple[str, str]] = {}  # device and link, by disk
        self._plugged: dict[str, str] = {}  # by disk: what the kind calls the device that is plugged in
        self._disk_lock = asyncio.Lock()
        self._ahead = 0.0
        self._watchdog = PlayedWatchdog(self._bitten)
        self._was_bitten = False
        self._biting: asyncio.Task[None] | None = None

    # --- what a kind does its own way

    @abc.abstractmethod
    def _launch(self) -> list[str]:
        """The command line that starts its kernel, with its console on standard output; the Python program of
        its first process is on standard input."""

    @abc.abstractmethod
    def _ending(self) -> Ending:
        """How it ended; nothing of it runs any more."""

    @abc.abstractmethod
    async def _plug_in(self, disk: str, device: str) -> None:
        """Plugs a block device of the host in, and notes in `_plugged` by what name the machine's first
        process finds it (`guest.disks.plugged`)."""

    @abc.abstractmethod
    async def _pull_out(self, disk: str) -> None:
        """Takes the device out. Raises DiskInUse."""

    def _prepare(self) -> None:
        """What a kind needs before its kernel starts; `fittings` are known then. Blocks."""

    async def _started(self) -> None:
        """Its process has been started, and may have ended already."""

    async def _is_off(self) -> None:
        """Nothing of it runs any more."""

    # --- power

    async def boot(self, boot: Boot) -> None:
        await blocking(self._prepare_boot, boot)
        self._wire.open()
        self._up.clear()
        self._plugged = {}
        self._ahead = 0.0
        self._was_bitten = False
        self._part = Part(
            f"machine-{self.name}",
            self._group.entering(self._launch()),
            run=self._layout.run,
            logs=self._layout.logs,
            given=self.fittings.first_process(),
        )
        await self._part.start(restart=False)
        await self._started()
        await self._until_up()
        async with self._disk_lock:
            for disk in self._disks:
                await self._plug(disk)

    def _prepare_boot(self, boot: Boot) -> None:
        self._group.make()
        with contextlib.suppress(OSError):
            self._group.freeze(False)  # it stays so over the end of all that stood still in it
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in ("view", "share"):
            (self._directory / name).mkdir(exist_ok=True)
        make_state(self._home / "state.img", self._state_bytes)
        link = self._directory / "state"
        link.unlink(missing_ok=True)
        link.symlink_to(self._home / "state.img")
        share = self._directory / "share"
        self._prepare()
        write_orders(share, self.name, self._guest(), boot, self.fittings, self._network)

    def _launched_by(self, launcher: str, kernel: list[str]) -> list[str]:
        """The command line that starts the kernel with its view of the host's files."""
        places = [str(self._directory / name) for name in ("view", "share", "wire")]
        hidden = [str(path) for path in self._guest().hidden]
        python = command(launcher)
        return ["unshare", "--mount", *python, *places, *hidden, "--", *kernel]

    async def _until_up(self) -> None:
        assert self._part is not None
        ended = asyncio.create_task(self._part.ended.wait())
        up = asyncio.create_task(self._up.wait())
        try:
            await asyncio.wait((ended, up), timeout=self.up_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            up.cancel()
        if not self._up.is_set():
            how = "ended" if self._part.ended.is_set() else f"is not up after {self.up_s:g} s"
            await self.cut_power()
            raise ClusterError(f"the machine of {self.name} {how}: {self._last_words()}")

    async def press_power_button(self) -> None:
        with contextlib.suppress(OSError):  # it is going off already
            self._wire.tell("power-button")

    async def cut_power(self) -> None:
        await blocking(self._group.kill)
        if self._part is not None:
            await self._part.kill()
        self._wire.close()
        self._watchdog.off()  # what is still read of a boot that is over arms nothing for the next
        looking.forget(self._layout, self.name)
        await self._is_off()
        async with self._disk_lock:
            self._plugged = {}

    async def until_off(self) -> Ending:
        assert self._part is not None
        await self._part.ended.wait()
        await blocking(self._group.kill)  # its kernel is gone: what is left of it are helpers
        return Ending.RESET if self._was_bitten else self._ending()

    def _bitten(self) -> None:
        log.warning("its watchdog was not fed: it is reset", node=self.name)
        self._was_bitten = True
        self._biting = asyncio.create_task(blocking(self._group.kill), name=f"reset {self.name}")

    def power(self) -> Power:
        return Power.ON if self._group.populated() else Power.OFF

    def console(self) -> Path:
        return self._layout.logs / f"machine-{self.name}.log"

    def _last_words(self, size: int = 600) -> str:
        """The end of what its console shows."""
        try:
            with self.console().open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - size))
                return file.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _told(self, message: dict[str, Any]) -> None:
        match message["says"]:
            case "up":
                self._up.set()
            case "watchdog":
                answer = self._watchdog.asked(message)
                with contextlib.suppress(OSError):  # it is going off
                    self._wire.tell("watchdog", **{"from": message.get("from")}, answer=answer)
            case "mounts":
                looking.note(self._layout, self.name, str(message.get("table", "")))
            case other:
                log.warning("a machine says what is not understood", node=self.name, says=str(other)[:100])

    # --- disks

    async def add_disk(self, disk: str, device: str, link: str) -> None:
        async with self._disk_lock:
            self._disks[disk] = device, link
            if self._up.is_set() and self.power() is Power.ON:
                await self._plug(disk)

    async def _plug(self, disk: str) -> None:
        device, link = self._disks[disk]
        if disk not in self._plugged:
            await self._plug_in(disk, device)
        await self._wire.ask("plugged", disk=disk, device=self._plugged[disk], link=link)

    async def remove_disk(self, disk: str) -> None:
        async with self._disk_lock:
            if disk in self._plugged and self.power() is Power.ON:
                await self._pull_out(disk)
                await self._wire.ask("unplugged", link=self._link(disk))
            self._plugged.pop(disk, None)
            self._disks.pop(disk, None)

    def _link(self, disk: str) -> str:
        return self._disks[disk][1]

    # --- what may go wrong

    async def freeze(self) -> None:
        await blocking(self._group.freeze, True)

    async def thaw(self) -> None:
        await blocking(self._group.freeze, False)

    async def skew(self, seconds: float) -> None:
        await self._ask("skew", seconds=seconds, now=time.time())
        self._ahead = seconds

    async def heal(self) -> None:
        await self.thaw()
        await self._let_io_go_on()
        if self._ahead:
            await self.skew(0)

    @abc.abstractmethod
    async def _let_io_go_on(self) -> None:
        """Undoes `hang`. Idempotent."""

    @abc.abstractmethod
    def _io_hangs(self) -> bool: ...

    async def run(self, script: str) -> tuple[int, str]:
        if self._group.frozen():
            raise ClusterError(f"{self.name} is frozen: `mooring node thaw {self.name}`")
        reply = await self._ask("run", script=script, most=MOST_OUTPUT, seconds=RUN_S)
        return int(reply["status"]), str(reply["output"])

    async def _ask(self, what: str, **options: Any) -> dict[str, Any]:
        try:
            return await self._wire.ask(what, **options)
        except Unanswered as error:
            raise ClusterError(f"{self.name}: {error}") from error

    def troubles(self) -> list[str]:
        clock = [f"clock {self._ahead:+g} s"] if self._ahead else []
        return ["frozen"] * self._group.frozen() + ["I/O hangs"] * self._io_hangs() + clock
