"""Whether this host can run virtual machines. What is missing is said in one line."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import cgroup
from mooring.cluster.machines.qemu import trial
from mooring.cluster.machines.qemu.command_line import PROGRAM, Computing
from mooring.cluster.machines.qemu.guest_kernel import GuestKernel, cache, find, needed_modules, places

PROGRAMS: Mapping[str, str] = {
    PROGRAM: "qemu-system-x86",
    "busybox": "busybox-static",
    "modprobe": "kmod",
    "mkfs.ext4": "e2fsprogs",
    "ip": "iproute2",
}
"""What a machine needs, and the Debian package that has it."""
TUN = Path("/dev/net/tun")
SLOW = "--machines qemu-tcg: QEMU computes all of it in software, some twenty times slower than a processor"
_INTERPRETER = b"/ld-linux"


def check(computing: Computing) -> None:
    """Raises ClusterError, which names all that is missing and how to get it. Blocks, up to a quarter of a
    minute where KVM has not been tried since this host booted."""
    kind = "qemu" if computing is Computing.KVM else "qemu-tcg"
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if "busybox-static" not in missing and not is_static(busybox()):
        missing.add("busybox-static")
    if missing:
        raise ClusterError(
            f"--machines {kind} needs what is not installed: apt-get install {' '.join(sorted(missing))}"
        )
    if not TUN.exists():
        raise ClusterError(f"--machines {kind} needs {TUN}, which this host does not have: modprobe tun")
    if cgroup.hierarchy() is None:
        raise ClusterError(
            f"--machines {kind} needs cgroups of version 2 in which groups can be made: mount -t cgroup2 none "
            "/sys/fs/cgroup/unified"
        )
    kernel = guest_kernel()
    needed_modules(kernel)
    if computing is Computing.KVM and (why := trial.why_not(kernel, busybox())):
        raise ClusterError(
            f"--machines qemu needs KVM, and that boots no kernel here: {why}; --machines qemu-tcg does without it, "
            "and computes some twenty times slower"
        )


def guest_kernel() -> GuestKernel:
    """The kernel for machines here. Blocks. Raises ClusterError, which says how to get one."""
    kernel = find(places())
    if kernel is None:
        raise ClusterError(
            "virtual machines need a kernel, and there is none in /boot with its modules in /lib/modules: apt-get "
            "install linux-image-amd64; or, changing nothing of this host: apt-get download linux-image-VERSION-amd64 "
            f"&& dpkg -x linux-image-*.deb {cache() / 'kernel'}"
        )
    return kernel


def busybox() -> Path:
    """Where it is; it is installed."""
    found = shutil.which("busybox")
    assert found is not None
    return Path(found)


def is_static(program: Path) -> bool:
    """Whether the program needs no libraries. Blocks."""
    with program.open("rb") as file:
        return _INTERPRETER not in file.read(4096)
