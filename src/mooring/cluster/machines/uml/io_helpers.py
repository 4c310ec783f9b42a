"""Which processes do a User-mode Linux kernel's disk I/O for it: stopped, its I/O does not return, and all
else goes on.

The kernel has two kinds of helpers, which share its memory and which it does not trace: one that does its
disk I/O, and one that looks after files that cannot signal it. Both wait in poll(2): the former for a record
in the kernel's own data (`ubd_user.c` of Linux), the latter for one that was allocated (`sigio.c`). A process
of the guest is not traced either in its first moments, so one that does not wait counts only if it is older
than all that the kernel traces: the kernel starts the one for its disks before the guest's first process.
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.cluster.machines.cgroup import Cgroup
from mooring.cluster.processes import Running

_POLL = "7"
"""Of x86_64, as /proc/PID/syscall has it."""


def io_helpers(group: Cgroup) -> list[Running]:
    """Those that run. Blocks."""
    processes = [found for pid in group.processes() if (found := Running.of(pid))]
    guest = min((each.start_time for each in processes if _is_traced(each)), default=0)
    return [each for each in processes if _is_io_helper(each, guest)]


def _is_traced(process: Running) -> bool:
    try:
        return "TracerPid:\t0\n" not in _status(process)
    except OSError:
        return False  # it has just ended


def _is_io_helper(process: Running, guest: int) -> bool:
    """`guest`: when the guest's first process started, in clock ticks since boot."""
    directory = Path(f"/proc/{process.pid}")
    try:
        kernel = os.readlink(directory / "exe")
        parent = _status(process).split("PPid:")[1].split()[0]
        if _is_traced(process) or os.readlink(f"/proc/{parent}/exe") != kernel:
            return False  # a process of the guest, or the kernel itself
        call = (directory / "syscall").read_text().split()
        if call[0] != _POLL:
            return process.start_time < guest  # in the middle of its work
        return int(call[1], 16) < _heap(directory)
    except (OSError, IndexError, ValueError, StopIteration):
        return False  # it has just ended


def _status(process: Running) -> str:
    return Path(f"/proc/{process.pid}/status").read_text()


def _heap(process: Path) -> int:
    """Where the program's own data is over, as it lies in memory."""
    lines = (process / "maps").read_text().splitlines()
    return int(next(line for line in lines if line.endswith("[heap]")).split("-")[0], 16)
