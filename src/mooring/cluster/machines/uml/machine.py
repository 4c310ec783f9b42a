"""A User-mode Linux as a machine.

Power off is the end of everything in its cgroup: killing its kernel alone leaves helpers that go on writing.
Its disks are loop devices of the host, plugged in while it runs; its kernel refuses to give one back that is
open. Its state is on a disk image of its own. The host's files are its root, read-only (`launcher`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import cgroup, looking
from mooring.cluster.machines.cgroup import Cgroup
from mooring.cluster.machines.guest_program import program
from mooring.cluster.machines.interface import (
    MOST_OUTPUT,
    RUN_S,
    Boot,
    DiskInUse,
    Ending,
    Links,
    Machine,
    NotPossible,
    Power,
)
from mooring.cluster.machines.links import NoLinks
from mooring.cluster.machines.network import MachineNetwork
from mooring.cluster.machines.uml import mconsole
from mooring.cluster.machines.uml.io_helpers import io_helpers
from mooring.cluster.machines.uml.kernel import MOST_DISKS, Kernel
from mooring.cluster.machines.uml.launcher import FIRST_PROCESS
from mooring.cluster.machines.uml.wire import Unanswered, Wire
from mooring.cluster.processes import Part
from mooring.mounts.blocking import blocking
from mooring.volumes.plugins.disk_devices import PluggedDevices

log = structlog.get_logger(component="cluster")

UP_S = 60.0
"""So long may a machine take until its first process says that it is up, in seconds."""
STATE_BYTES = 4 << 30
MEMORY_BYTES = 384 << 20
RUN = Path("/run/mooring")
LETTERS = "bcdefghijklmnop"


@dataclass(frozen=True)
class Guest:
    """What a machine is to do: its programs (the first is the agent), their environment, where the agent
    keeps its files, and what of the host it must not see."""

    programs: list[list[str]]
    environ: Mapping[str, str]
    directory: Path
    files: Mapping[str, Path]
    """Files of the host that are copied to paths in the machine, at each boot."""
    hidden: list[Path]


class UmlMachine(Machine):
    """A machine with a Linux of its own."""

    kind = "uml"

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
        """`state_bytes` is the size of its own disk, which has it from its first boot on."""
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
        self._letters: dict[str, str] = {}  # by disk: those that are plugged in
        self._disk_lock = asyncio.Lock()
        self._helpers: list[int] = []
        self._ahead = 0.0

    # --- power

    async def boot(self, boot: Boot) -> None:
        await blocking(self._prepare, boot)
        self._wire.open()
        self._up.clear()
        self._letters = {}
        self._ahead = 0.0
        self._part = Part(
            f"machine-{self.name}",
            self._group.entering(self._command()),
            run=self._layout.run,
            logs=self._layout.logs,
            given=program("guest.first_process", "hostfs", "/share", "/dev/ttyS0").encode(),
        )
        await self._part.start(restart=False)
        await self._until_up()
        async with self._disk_lock:
            for disk in self._disks:
                await self._plug(disk)

    def _prepare(self, boot: Boot) -> None:
        self._group.make()
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in ("view", "share"):
            (self._directory / name).mkdir(exist_ok=True)
        shutil.rmtree(self._directory / self.name, ignore_errors=True)  # of the kernel before
        make_state(self._home / "state.img", self._state_bytes)
        link = self._directory / "state"
        link.unlink(missing_ok=True)
        link.symlink_to(self._home / "state.img")
        self._write_orders(boot)

    def _write_orders(self, boot: Boot) -> None:
        guest = self._guest()
        orders = {
            "name": self.name,
            "state": "/dev/ubda",
            "directory": str(guest.directory),
            "disks": str(PluggedDevices.known),
            "programs": guest.programs,
            "environ": {**guest.environ, **boot.environ},
            "files": {path: source.read_text() for path, source in guest.files.items()},
            "network": self._wiring(),
        }
        path = self._directory / "share" / "boot.json"
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(json.dumps(orders))

    def _wiring(self) -> dict[str, Any] | None:
        if self._network is None:
            return None
        return {
            "address": str(self._network.address),
            "addresses": str(self._network.addresses),
            "modules": ["bridge"],
        }

    def _command(self) -> list[str]:
        tap = self._network.tap if self._network else None
        kernel = Kernel(
            self.name,
            self._directory,
            self._directory / "view",
            self._memory,
            self._directory / "state",
            tap,
        )
        launcher = [sys.executable, "-I", "-S", "-c", program("uml.launcher")]
        places = [str(self._directory / name) for name in ("view", "share", "wire")]
        hidden = [str(path) for path in self._guest().hidden]
        return ["unshare", "--mount", *launcher, *places, *hidden, "--", *kernel.command(FIRST_PROCESS)]

    async def _until_up(self) -> None:
        assert self._part is not None
        ended = asyncio.create_task(self._part.ended.wait())
        up = asyncio.create_task(self._up.wait())
        try:
            await asyncio.wait((ended, up), timeout=UP_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            up.cancel()
        if not self._up.is_set():
            how = "ended" if self._part.ended.is_set() else f"is not up after {UP_S:g} s"
            await self.cut_power()
            raise ClusterError(f"the machine of {self.name} {how}: {_tail(self.console())}")

    async def press_power_button(self) -> None:
        with contextlib.suppress(OSError):  # it is going off already
            self._wire.tell("power-button")

    async def cut_power(self) -> None:
        await blocking(self._group.kill)
        if self._part is not None:
            await self._part.kill()
        self._wire.close()
        looking.forget(self._layout, self.name)
        self._helpers = []
        async with self._disk_lock:
            self._letters = {}

    async def until_off(self) -> Ending:
        await self._group.until_empty()
        return ending(_tail(self.console()))

    def power(self) -> Power:
        return Power.ON if self._group.populated() else Power.OFF

    def console(self) -> Path:
        return self._layout.logs / f"machine-{self.name}.log"

    def _told(self, message: dict[str, Any]) -> None:
        match message["says"]:
            case "up":
                self._up.set()
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
        if disk not in self._letters:
            letter = next((each for each in LETTERS if each not in self._letters.values()), None)
            if letter is None:
                raise NotPossible(f"{self.name} has {MOST_DISKS} disks, and its kernel takes no more")
            self._letters[disk] = letter
            await self._order(f"config ubd{letter}={device}")
        await self._wire.ask("plugged", disk=disk, device=f"ubd{self._letters[disk]}", link=link)

    async def remove_disk(self, disk: str) -> None:
        async with self._disk_lock:
            letter = self._letters.get(disk)
            if letter is not None and self.power() is Power.ON:
                try:
                    await self._order(f"remove ubd{letter}")
                except mconsole.Refused as error:
                    if "open" not in str(error).lower():
                        raise
                    raise DiskInUse(f"the kernel of {self.name} has it open") from error
                await self._wire.ask("unplugged", device=f"ubd{letter}", link=self._disks[disk][1])
            self._letters.pop(disk, None)
            self._disks.pop(disk, None)

    async def _order(self, command: str) -> str:
        return await blocking(mconsole.order, self._directory / self.name / "mconsole", command)

    # --- what may go wrong

    async def panic(self) -> None:
        with contextlib.suppress(mconsole.NoAnswer):  # it has not the time to answer
            await self._order("sysrq c")

    async def freeze(self) -> None:
        await blocking(self._group.freeze, True)

    async def thaw(self) -> None:
        await blocking(self._group.freeze, False)

    async def hang(self) -> None:
        self._helpers = await blocking(io_helpers, self._group)
        for pid in self._helpers:
            os.kill(pid, signal.SIGSTOP)

    async def heal(self) -> None:
        await self.thaw()
        for pid in self._helpers:
            os.kill(pid, signal.SIGCONT)
        self._helpers = []
        if self._ahead:
            await self.skew(0)

    async def skew(self, seconds: float) -> None:
        await self._ask("skew", seconds=seconds, now=time.time())
        self._ahead = seconds

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
        return ["frozen"] * self._group.frozen() + ["I/O hangs"] * bool(self._helpers) + clock


def run_directory(data_dir: Path) -> Path:
    """Sockets and FIFOs of a cluster's machines, by paths that are short enough for a socket's address."""
    return RUN / cgroup.cluster(data_dir)


def make_state(image: Path, size: int = STATE_BYTES) -> None:
    """An ext4 file system for the machine's own files, if there is none. Blocks. Raises ClusterError."""
    if image.exists():
        return
    image.parent.mkdir(parents=True, exist_ok=True)
    draft = image.with_suffix(".new")
    with draft.open("wb") as file:
        file.truncate(size)
    command = ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(draft)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"cannot make a machine's disk {image}: {done.stderr.strip()}")
    draft.rename(image)


def ending(console: str) -> Ending:
    """How the machine ended, by the last lines that its kernel printed."""
    if "Failed to exec kernel" in console:
        return Ending.RESET
    return Ending.SHUT_DOWN if console.rstrip().endswith(("System halted", "Power down")) else Ending.DIED


def _tail(log_file: Path, size: int = 600) -> str:
    try:
        with log_file.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
