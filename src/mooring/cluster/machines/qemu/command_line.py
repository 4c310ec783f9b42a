"""What a virtual machine is started with. Pure.

What a name or path can have in it that QEMU's own syntax takes for something else, a comma, goes in as JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mooring.cluster.machines.qemu.boot_files import ROOT_TAG, SHARE_TAG

PROGRAM = "qemu-system-x86_64"
WIRE = "wire"
"""The serial line, /dev/vport0p1 in the machine, as it is on the first of its virtio devices."""
STATE = "state"
_BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
"""A reset ends it, so that its supervisor decides what comes next. After a panic the kernel asks for one when
it has told all on its console; that it was a panic QEMU has said before (`GUEST_PANICKED`)."""


class Computing(StrEnum):
    """Who computes what the guest computes: this processor (KVM), or QEMU itself (TCG)."""

    KVM = "kvm"
    TCG = "tcg"


_PROCESSOR = {Computing.KVM: "host", Computing.TCG: "max,la57=off"}
"""la57: a level of page tables that software would walk for nothing."""


def bare(
    program: str, computing: Computing, memory: int, kernel: Path, initrd: Path, words: str
) -> list[str]:
    """A machine with a processor, memory (in bytes), and a console on the standard output. `words` are for
    the kernel, beside those that each has."""
    return [
        *(program, "-machine", "pc", "-accel", computing.value, "-cpu", _PROCESSOR[computing]),
        *("-m", f"{memory >> 20}M", *_BARE),
        *("-chardev", "file,id=console,path=/proc/self/fd/1,append=on", "-serial", "chardev:console"),
        *("-kernel", str(kernel), "-initrd", str(initrd)),
        *("-append", f"console=ttyS0 quiet panic=-1 {words}".strip()),
    ]


@dataclass(frozen=True)
class Hardware:
    """What one machine has. `memory` is in bytes; `directory` is where its sockets are; `cable` is its tap,
    and the address of its interface."""

    name: str
    directory: Path
    memory: int
    cable: tuple[str, str] | None

    @property
    def view(self) -> Path:
        """What its guest sees of the host (`launcher`)."""
        return self.directory / "view"

    @property
    def monitor(self) -> Path:
        """The socket where QEMU takes orders (`qmp`)."""
        return self.directory / "qmp"

    @property
    def initrd(self) -> Path:
        """Its first files."""
        return self.directory / "initramfs"

    def command(self, program: str, computing: Computing, kernel: Path) -> list[str]:
        """The command line; standard output is the console."""
        return [
            *bare(program, computing, self.memory, kernel, self.initrd, "unknown_nmi_panic"),
            *("-name", self.name.replace(",", ",,")),
            *("-chardev", f"socket,id=monitor,path={self.monitor},server=on,wait=off"),
            *("-mon", "chardev=monitor,mode=control"),
            *("-device", "virtio-serial-pci", "-chardev", f"pipe,id={WIRE},path={self.directory}/wire/wire"),
            *("-device", f"virtserialport,chardev={WIRE},name={WIRE}"),
            *self._files(ROOT_TAG, self.view / "root"),
            *self._files(SHARE_TAG, self.view / "share"),
            *("-blockdev", json.dumps(block_device(STATE, "file", str(self.directory / "state")))),
            *("-device", json.dumps(drive(STATE))),
            *("-device", "pvpanic-pci", "-device", "i6300esb", "-action", "watchdog=reset,panic=none"),
            *self._cable(),
        ]

    @staticmethod
    def _files(tag: str, path: Path) -> list[str]:
        served = f"local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"
        return ["-fsdev", served, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]

    def _cable(self) -> list[str]:
        if self.cable is None:
            return []
        tap, mac = self.cable
        return [
            *("-netdev", f"tap,id=cable,ifname={tap},script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=cable,mac={mac},romfile="),
        ]


def block_device(node: str, driver: str, path: str) -> dict[str, object]:
    """QEMU's block device `node` on a file or device of the host. Of a device nothing is kept in this host's
    cache, so that all see what is on it."""
    direct = {"cache": {"direct": driver == "host_device"}}
    return {
        "driver": "raw",
        "node-name": node,
        **direct,
        "file": {"driver": driver, "filename": path, **direct},
    }


def drive(node: str) -> dict[str, object]:
    """The device in the machine that is on the block device `node`; its serial number is that name."""
    return {"driver": "virtio-blk-pci", "id": f"drive-{node}", "drive": node, "serial": node}
