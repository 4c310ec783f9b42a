"""The first process of a simulated machine: pid 1 of its own PID, mount and UTS namespace.

Run as `unshare --pid --fork --mount --uts --kill-child python -m mooring.cluster.machine NAME -- COMMAND…`. It mounts
the namespace's /proc, sets the host name, keeps COMMAND (the node agent) running, and reaps what the agent leaves
behind: pods' supervisors outlive the agent. SIGTERM is the power button: the agent is asked (SIGUSR1) to end its pods
and unmount, and when it has exited, so does the machine. When this process is killed the kernel ends all the others.

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


def mount_proc() -> None:
    """Shows this namespace's processes, and no others, under /proc."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None) != 0:
        raise OSError(ctypes.get_errno(), "cannot mount /proc in the machine's namespace")


class Machine:
    """Keeps the agent running until the power button is pressed."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._agent = 0
        self._stopping = False
        signal.signal(signal.SIGTERM, self._power_button)

    def _power_button(self, *_: object) -> None:
        self._stopping = True
        if self._agent:
            os.kill(self._agent, signal.SIGUSR1)

    def _start_agent(self) -> None:
        # SIGUSR1 is blocked until the agent listens: pressed early, the power button waits.
        self._agent = os.posix_spawnp(
            self._command[0], self._command, os.environ, setsigmask=[signal.SIGUSR1], setsigdef=[signal.SIGTERM]
        )
        if self._stopping:
            os.kill(self._agent, signal.SIGUSR1)

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
    name, separator, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    assert separator == "--", f"usage: python -m {__name__} NAME -- COMMAND…"
    mount_proc()
    socket.sethostname(name)
    Machine(command).run()


if __name__ == "__main__":
    main()
