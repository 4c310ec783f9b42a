"""Whether this host can run a User-mode Linux, and with which command line. What is missing is said in one
line."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import cgroup
from mooring.cluster.machines.uml import processor

PROGRAMS: Mapping[str, str] = {
    "linux.uml": "user-mode-linux",
    "modprobe": "kmod",
    "mkfs.ext4": "e2fsprogs",
    "ip": "iproute2",
}
"""What a machine needs, and the Debian package that has it."""
TUN = Path("/dev/net/tun")
MOST_DISKS = 15
"""Beside the state disk: User-mode Linux has 16 devices."""
NOT_AT_BOOT = "raid6_select_algo"
"""A part of the kernel that is left out: it measures for 0.9 s how fast it computes RAID 6, which no volume
here is. Source: lib/raid6/algos.c of Linux."""


def check() -> None:
    """Raises ClusterError, which names all that is missing and how to get it. Blocks."""
    missing = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        raise ClusterError(f"--machines uml needs what is not installed: apt-get install {' '.join(missing)}")
    if not TUN.exists():
        raise ClusterError(f"--machines uml needs {TUN}, which this host does not have: modprobe tun")
    if cgroup.hierarchy() is None:
        raise ClusterError(
            "--machines uml needs cgroups of version 2 in which groups can be made: mount -t cgroup2 none "
            "/sys/fs/cgroup/unified"
        )
    if (program := shutil.which("linux.uml")) is not None:
        processor.check(program)


@dataclass(frozen=True)
class Kernel:
    """What one machine's kernel is started with. `memory` is in bytes; `directory` is where its sockets are;
    `view` what its guest sees of the host (`launcher`)."""

    name: str
    directory: Path
    view: Path
    memory: int
    state: Path
    tap: str | None

    def command(self, first_process: str) -> list[str]:
        """The command line; descriptors 3 and 4 are the serial line, standard output is the console."""
        program = shutil.which("linux.uml")
        assert program is not None
        cable = [f"vec0:transport=tap,ifname={self.tap},depth=128,gro=1"] if self.tap else []
        return [
            *(program, f"mem={self.memory >> 20}M", f"umid={self.name}", f"uml_dir={self.directory}"),
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/root", f"hostfs={self.view}", "ro", "quiet"),
            *("con=null", "con0=null,fd:1", "ssl=null", "ssl0=fd:3,fd:4"),
            *(f"ubda={self.state}", *cable),
            *(f"init={first_process}", f"initcall_blacklist={NOT_AT_BOOT}"),
        ]
