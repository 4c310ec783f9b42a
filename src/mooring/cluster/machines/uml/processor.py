"""Whether a User-mode Linux can run on this host's processor.

It puts the registers of its guest's processes into a process of the host, by ptrace, and takes them all at
once. A processor with AMX has 8 KiB more of them than a kernel as Debian 12's (6.1) has room for; the host
refuses that, and the kernel ends as soon as its first process begins. So there, and only there, one is tried.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from mooring.cluster.layout import ClusterError

CPUINFO = Path("/proc/cpuinfo")
LARGE = "amx_tile"
"""The flag of a processor with so many registers."""
REFUSED = b"put_fp_registers"
"""The function of the kernel that ends it then, in what it says last."""
TRY_S = 20.0


def check(program: str) -> None:
    """Raises ClusterError if a kernel of this program ends by itself here. Blocks, for a second."""
    if _is_large() and REFUSED in _tried(program):
        raise ClusterError(
            "--machines uml cannot run on this processor: it has AMX, whose registers are more than this "
            f"{Path(program).name} has room for. Take a host without AMX, a newer user-mode-linux, or --machines qemu"
        )


def _is_large() -> bool:
    return any(LARGE in line.split() for line in CPUINFO.read_text().splitlines() if line.startswith("flags"))


def _tried(program: str) -> bytes:
    """What a kernel says whose first process ends at once."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as directory:
        command = [
            *(program, "mem=64M", "umid=try", f"uml_dir={directory}", "root=/dev/root", "rootfstype=hostfs"),
            *("rootflags=/", "ro", "quiet", "con=null", "con0=null,fd:1", "ssl=null", "init=/bin/true"),
        ]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                check=False, timeout=TRY_S,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return b""  # whatever that is, a machine will say it
    return done.stdout
