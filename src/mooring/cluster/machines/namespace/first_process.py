"""The first process of a simulated machine: pid 1 of its own PID, mount and UTS namespace.

Run as `unshare --pid --fork --mount --uts --kill-child python -m
mooring.cluster.machines.namespace.first_process NAME [SHARED] -- COMMAND…`. Mounts on the host appear here
only below the directory SHARED, if it is given. It mounts the namespace's /proc, sets the host name, keeps
COMMAND (the node agent) running, and reaps what the agent leaves behind: pods' supervisors outlive the agent.
SIGTERM is the power button: SIGUSR1 makes the agent end its pods and unmount, and when it has exited, so does
the machine. When this process is killed the kernel ends all the others.

Needs only the standard library, and few modules of it: it is small, and stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time

MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
MS_PRIVATE = 1 << 18


def mount_proc() -> None:
    """Shows this namespace's processes, and no others, under /proc."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None) != 0:
        raise OSError(ctypes.get_errno(), "cannot mount /proc in the machine's namespace")


def keep_out(shared: str) -> None:
    """Of all mounts, which follow the host's, only those at and below `shared` go on to do so."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/mountinfo") as table:
        points = [line.split()[4].encode().decode("unicode_escape") for line in table]
    for point in points:
        inside = point == shared or point.startswith(f"{shared}/")
        # One that is hidden below another cannot be reached, and so is no way in.
        if not inside and libc.mount(b"none", os.fsencode(point), None, MS_PRIVATE, None) != 0:
            print(f"{point} stays as it is: {os.strerror(ctypes.get_errno())}", flush=True)


class Machine:
    """Keeps the agent running until the power button is pressed."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._agent = 0
        self._stopping = False
        signal.signal(signal.SIGTERM, self._power_button)

    def _power_button(self, *_: object) -> None:
        self._stopping = True
        self._tell_agent()

    def _tell_agent(self) -> None:
        """The signal may come when the agent has just been reaped: an error here would end the machine."""
        try:
            if self._agent:
                os.kill(self._agent, signal.SIGUSR1)
        except ProcessLookupError:
            pass  # the next one is told

    def _start_agent(self) -> None:
        # SIGUSR1 is blocked until the agent listens: pressed early, the power button waits.
        self._agent = os.posix_spawnp(
            self._command[0],
            self._command,
            os.environ,
            setsigmask=[signal.SIGUSR1],
            setsigdef=[signal.SIGTERM],
        )
        if self._stopping:
            self._tell_agent()

    def run(self) -> None:
        """Returns when the agent has exited after the power button."""
        self._start_agent()
        while True:
            pid, status = os.wait()
            if pid != self._agent:
                continue
            self._agent = 0
            if self._stopping and status == 0:
                return
            print(f"agent ended with status {os.waitstatus_to_exitcode(status)}: started again", flush=True)
            time.sleep(0.1)
            self._start_agent()


def main() -> None:
    end = sys.argv.index("--")
    (name, *shared), command = sys.argv[1:end], sys.argv[end + 1 :]
    for directory in shared:
        keep_out(directory)
    mount_proc()
    socket.sethostname(name)
    Machine(command).run()


if __name__ == "__main__":
    main()
