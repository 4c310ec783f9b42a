"""A QEMU virtual machine.

QEMU tells how it ended (`SHUTDOWN`, `GUEST_PANICKED`): a reset, also by its watchdog, ends it, and its
supervisor starts it again. Its disks are PCI devices, which the kernel gives up whatever uses them: so its
first process holds a disk before it is taken out, and says so if it is in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Mapping

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.boot_orders import Fittings, Guest
from mooring.cluster.machines.cgroup import Cgroup
from mooring.cluster.machines.interface import DiskInUse, Ending
from mooring.cluster.machines.network import MachineNetwork
from mooring.cluster.machines.own_kernel import MEMORY_BYTES, OwnKernelMachine, log
from mooring.cluster.machines.qemu import host
from mooring.cluster.machines.qemu.boot_files import P9, SHARE_TAG, boot_files
from mooring.cluster.machines.qemu.command_line import (
    PROGRAM,
    STATE,
    Computing,
    Hardware,
    block_device,
    drive,
)
from mooring.cluster.machines.qemu.guest_kernel import GuestKernel
from mooring.cluster.machines.qemu.qmp import Event, Monitor, NoAnswer, Refused
from mooring.cluster.machines.view import FIRST_PROCESS

KINDS: Mapping[Computing, str] = {Computing.KVM: "qemu", Computing.TCG: "qemu-tcg"}
UP_S: Mapping[Computing, float] = {Computing.KVM: 60.0, Computing.TCG: 180.0}
PANIC_S = 20.0
"""So long may the kernel take to tell its panic, in seconds; its power is cut then."""
GONE_S = 30.0
"""So long may the guest take to give up a disk, in seconds."""
LISTENS_S = 10.0
SLOWEST = 1
"""Bytes in a second; 0 stands for no limit."""
SWALLOWED = "aio_read -q 0 64k"
"""The first request under a limit is served; those after it wait until it is paid for, most of a day. QEMU
does not wait for this one, as a request of the guest may have come first."""
RESETS = ("guest-reset", "host-qmp-system-reset")


class QemuMachine(OwnKernelMachine):
    """A virtual machine, with a stock kernel of Debian's."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        guest: Callable[[], Guest],
        *,
        group: Cgroup,
        network: MachineNetwork | None,
        memory: int = MEMORY_BYTES,
        computing: Computing = Computing.KVM,
    ) -> None:
        super().__init__(name, layout, guest, group=group, network=network, memory=memory)
        self.kind = KINDS[computing]
        self.up_s = UP_S[computing]
        self._computing = computing
        cable = (network.tap, network.mac) if network else None
        self._hardware = Hardware(name, self._directory, memory, cable)
        self._kernel: GuestKernel
        self._monitor = Monitor(self._heard)
        self._why_ended = ""
        self._panicked = asyncio.Event()
        self._gone: dict[str, asyncio.Event] = {}  # by device: the guest has given it up
        self._number = 0
        self._hangs = False

    # --- power

    def _prepare(self) -> None:
        self._kernel = host.guest_kernel()
        self.fittings = Fittings(
            ("9p", SHARE_TAG, P9), "/dev/vport0p1", str(self._kernel.modules), "/dev/vda", "eth0"
        )
        self._hardware.initrd.write_bytes(boot_files(self._kernel, host.busybox(), FIRST_PROCESS))
        self._hardware.monitor.unlink(missing_ok=True)
        self._why_ended = ""
        self._panicked.clear()
        self._hangs = False

    def _launch(self) -> list[str]:
        program = shutil.which(PROGRAM)
        assert program is not None
        command = self._hardware.command(program, self._computing, self._kernel.image)
        return self._launched_by("qemu.launcher", command)

    async def _started(self) -> None:
        assert self._part is not None
        self._monitor = Monitor(self._heard)
        deadline = asyncio.get_running_loop().time() + LISTENS_S
        while not self._part.ended.is_set():
            with contextlib.suppress(OSError):
                await self._monitor.connect(self._hardware.monitor)
                return
            if asyncio.get_running_loop().time() > deadline:
                return  # the machine will not come up, and its console says why
            await asyncio.sleep(0.02)

    async def _is_off(self) -> None:
        await self._monitor.close()
        self._hangs = False

    async def until_off(self) -> Ending:
        await self._group.until_empty()
        await self._monitor.until_closed()
        return self._ending()

    def _heard(self, event: Event) -> None:
        match event.name:
            case "SHUTDOWN":
                self._why_ended = str(event.data.get("reason", ""))
            case "GUEST_PANICKED":
                self._panicked.set()
            case "DEVICE_DELETED":
                gone = self._gone.get(str(event.data.get("device", "")))
                if gone is not None:
                    gone.set()
            case _:
                pass

    def _ending(self) -> Ending:
        return ending(self._why_ended, self._panicked.is_set())

    # --- disks

    async def _plug_in(self, disk: str, device: str) -> None:
        self._number += 1
        node = f"disk-{self._number}"
        await self._monitor.order("blockdev-add", block_device(node, "host_device", device))
        try:
            await self._monitor.order("device_add", drive(node))
        except Refused as error:
            await self._monitor.order("blockdev-del", {"node-name": node})
            raise ClusterError(f"{self.name} takes no disk more: {error}") from error
        self._plugged[disk] = f"serial:{node}"
        if self._hangs:
            await self._limit(node, SLOWEST)

    async def _pull_out(self, disk: str) -> None:
        node = self._plugged[disk].removeprefix("serial:")
        user = (await self._wire.ask("hold", link=self._link(disk))).get("user")
        if user:
            raise DiskInUse(f"the kernel of {self.name} has it open: {user}")
        try:
            await self._until_given_up(f"drive-{node}")
        except (TimeoutError, NoAnswer, Refused) as error:
            await self._wire.ask("release", link=self._link(disk))
            raise DiskInUse(f"the kernel of {self.name} does not give it up: {error}") from error
        await self._monitor.order("blockdev-del", {"node-name": node})

    async def _until_given_up(self, device: str) -> None:
        gone = self._gone[device] = asyncio.Event()
        try:
            await self._monitor.order("device_del", {"id": device})
            async with asyncio.timeout(GONE_S):
                await gone.wait()
        finally:
            self._gone.pop(device, None)

    # --- what may go wrong

    async def panic(self) -> None:
        with contextlib.suppress(NoAnswer, TimeoutError):  # it stands still, and is cut off anyway
            await self._monitor.order("inject-nmi")
            async with asyncio.timeout(PANIC_S):
                await self._panicked.wait()
                await self._group.until_empty()

    async def hang(self) -> None:
        self._hangs = True
        for node in self._nodes():
            await self._limit(node, SLOWEST)

    async def _let_io_go_on(self) -> None:
        if self._hangs:
            for node in self._nodes():
                await self._limit(node, 0)
        self._hangs = False

    def _nodes(self) -> list[str]:
        return [STATE, *(name.removeprefix("serial:") for name in self._plugged.values())]

    async def _limit(self, node: str, rate: int) -> None:
        """At most so many bytes in a second; 0 for no limit."""
        others = dict.fromkeys(("bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr"), 0)
        part = f"/machine/peripheral/drive-{node}/virtio-backend"  # of the PCI device: it does the I/O
        await self._monitor.order("block_set_io_throttle", {"id": part, "bps": rate, **others})
        if rate:
            swallow = f'qemu-io -d {part} "{SWALLOWED}"'
            said = str(await self._monitor.order("human-monitor-command", {"command-line": swallow})).strip()
            if said:
                log.warning("a request may still be served", node=self.name, disk=node, said=said[:200])

    def _io_hangs(self) -> bool:
        return self._hangs


def ending(reason: str, panicked: bool) -> Ending:
    """How the machine ended, by what QEMU said last."""
    if panicked:
        return Ending.DIED
    return {"guest-shutdown": Ending.SHUT_DOWN, **dict.fromkeys(RESETS, Ending.RESET)}.get(
        reason, Ending.DIED
    )
