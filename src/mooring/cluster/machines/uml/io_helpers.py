"""Which processes do a User-mode Linux kernel's disk I/O for it: stopped, its I/O does not return, and all
else goes on.

The kernel has two kinds of helpers, which share its memory and which it does not trace: one that does its
disk I/O, and one that looks after files that cannot signal it. Both wait in poll(2): the former for a record
in the kernel's own data (`ubd_user.c` of Linux), the latter for one that was allocated (`sigio.c`).
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.cluster.machines.cgroup import Cgroup

_POLL = "7"
"""Of x86_64, as /proc/PID/syscall has it."""


def io_helpers(group: Cgroup) -> list[int]:
    """Their pids. Blocks."""
    return [pid for pid in group.processes() if _is_io_helper(Path(f"/proc/{pid}"))]


def _is_io_helper(process: Path) -> bool:
    try:
        status = (process / "status").read_text()
        kernel = os.readlink(process / "exe")
        call = (process / "syscall").read_text().split()
        parent = Path(f"/proc/{status.split('PPid:')[1].split()[0]}")
        if "TracerPid:\t0" not in status or os.readlink(parent / "exe") != kernel:
            return False  # a process of the guest, or the kernel itself
        if call[0] != _POLL:
            return True  # in the middle of its work
        return int(call[1], 16) < _heap(process)
    except (OSError, IndexError, ValueError, StopIteration):
        return False  # it has just ended


def _heap(process: Path) -> int:
    """Where the program's own data is over, as it lies in memory."""
    lines = (process / "maps").read_text().splitlines()
    return int(next(line for line in lines if line.endswith("[heap]")).split("-")[0], 16)
