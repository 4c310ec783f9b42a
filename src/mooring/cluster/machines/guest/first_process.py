"""The first process of a machine with a kernel of its own: builds its root, keeps the node agent running,
does what the host asks.

It is the machine's init: it reaps what others leave behind, and shuts the machine down when the power button
is pressed: SIGUSR1 makes the agent end its pods and unmount, and when it has exited the machine goes off.
What it was started for is in the share's `boot.json` (`BootOrders`). It tells the host its mount table
whenever that changes, so that what is true in here can be seen from outside.

Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from mooring.cluster.machines.guest import disks, network, root, watchdog
from mooring.cluster.machines.guest.wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypedDict

    class Wiring(TypedDict):
        """`modules` are what the kernel has to load for it; the rest is as `network.configure` takes it."""

        address: str
        addresses: str
        interface: str
        modules: list[str]

    class BootOrders(TypedDict):
        """`state` is the device of the machine's own disk, to be mounted at `directory`; `files` are written,
        by path; `programs` are kept running, each with `environ`; the first is the agent."""

        name: str
        state: str
        directory: str
        disks: str
        files: dict[str, str]
        programs: list[list[str]]
        environ: dict[str, str]
        network: Wiring | None


RB_DISABLE_CAD = 0
RB_POWER_OFF = 0x4321FEDC
RB_AUTOBOOT = 0x01234567
AGAIN_S = 0.1
_libc = ctypes.CDLL(None, use_errno=True)


class FirstProcess:
    """Keeps the programs running until the power button is pressed."""

    def __init__(self, orders: BootOrders, wire: Wire) -> None:
        self._orders = orders
        self._wire = wire
        self._running: dict[int, int] = {}  # pid to the index of its program
        self._scripts: dict[int, Script] = {}
        self._held = disks.Held()
        self._watchdog = watchdog.Door()
        self._agent = 0
        self._stopping = False

    def run(self) -> None:
        """Returns when the agent has exited after the power button."""
        waking, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, _nothing)
        for index in range(len(self._orders["programs"])):
            self._start(index)
        mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        poll = select.poll()
        poll.register(self._wire.fileno, select.POLLIN)
        poll.register(waking, select.POLLIN)
        poll.register(mounts, select.POLLPRI | select.POLLERR)
        poll.register(self._watchdog.fileno, select.POLLIN)
        self._tell_mounts(mounts)
        while not (self._stopping and not self._agent):
            for descriptor, _ in poll.poll():
                if descriptor == waking:
                    os.read(waking, 4096)
                    self._reap()
                elif descriptor == mounts:
                    self._tell_mounts(mounts)
                elif descriptor == self._watchdog.fileno:
                    poll.register(self._watchdog.accept(), select.POLLIN)
                elif self._watchdog.has(descriptor):
                    lines = self._watchdog.read(descriptor)
                    if lines is None:
                        poll.unregister(descriptor)
                        self._watchdog.close(descriptor)
                    for line in lines or ():
                        self._wire.write(line)
                else:
                    for request in self._wire.read():
                        self._answer(request)

    def _start(self, index: int) -> None:
        command = self._orders["programs"][index]
        agent = index == 0
        # SIGUSR1 is blocked until the agent listens: pressed early, the power button waits.
        pid = os.posix_spawnp(
            command[0],
            command,
            {**os.environ, **self._orders["environ"]},
            setsigmask=[signal.SIGUSR1] if agent else [],
            setsigdef=[signal.SIGCHLD],
        )
        self._running[pid] = index
        if agent:
            self._agent = pid
            if self._stopping:
                os.kill(pid, signal.SIGUSR1)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            index = self._running.pop(pid, None)
            if index is not None:
                self._ended(index, os.waitstatus_to_exitcode(status))
            elif (script := self._scripts.pop(pid, None)) is not None:
                self._wire.write({**script.answer(), "status": os.waitstatus_to_exitcode(status)})

    def _ended(self, index: int, status: int) -> None:
        if index == 0:
            self._agent = 0
            if self._stopping and status == 0:
                return
        name = " ".join(self._orders["programs"][index][:4])
        print(f"{name} ... ended with status {status}: started again", flush=True)
        time.sleep(AGAIN_S)
        self._start(index)

    def _tell_mounts(self, descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        table = b""
        while part := os.read(descriptor, 1 << 16):
            table += part
        self._wire.write({"says": "mounts", "table": table.decode(errors="surrogateescape")})

    def _answer(self, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": request.get("id")}
        if request.get("do") == "run":
            script = Script(request)
            self._scripts[script.pid] = script
            return
        try:
            answer |= self._do(str(request.pop("do", "")), request)
        except Exception as error:  # the host reads it: whatever it is, it belongs to this request
            answer["error"] = f"{type(error).__name__}: {error}"
        self._wire.write(answer)

    def _do(self, what: str, request: dict[str, Any]) -> dict[str, Any]:
        if what == "watchdog":
            self._watchdog.answer(request)
        elif what == "plugged":
            disks.plugged(self._orders["disks"], request["disk"], request["device"], request["link"])
        elif what == "hold":
            return {"user": self._held.hold(request["link"])}
        elif what == "release":
            self._held.release(request["link"])
        elif what == "unplugged":
            disks.unplugged(self._orders["disks"], request["link"])
            self._held.release(request["link"])
        elif what == "power-button":
            self._stopping = True
            if self._agent:
                os.kill(self._agent, signal.SIGUSR1)
        elif what == "skew":
            ahead = float(request["seconds"])
            time.clock_settime(time.CLOCK_REALTIME, float(request["now"]) + ahead)
        elif what == "reset":
            _libc.reboot(ctypes.c_uint(RB_AUTOBOOT))
        else:
            raise ValueError(f"unknown request {what!r}")
        return {}


class Script:
    """A shell script that the host asked for, which runs beside everything else; it is ended in time."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._id = request.get("id")
        self._most = int(request["most"])
        self._output = os.memfd_create("output")
        limit = ["timeout", "-k", "1", str(request["seconds"])]
        self.pid = os.posix_spawnp(
            limit[0],
            [*limit, "/bin/sh", "-c", str(request["script"])],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                *((os.POSIX_SPAWN_DUP2, self._output, number) for number in (1, 2)),
            ],
            setsigdef=[signal.SIGCHLD],
        )

    def answer(self) -> dict[str, Any]:
        """What it printed; it has ended."""
        output = os.pread(self._output, self._most, 0)
        os.close(self._output)
        return {"id": self._id, "output": output.decode(errors="replace")}


def _nothing(_number: int, _frame: object) -> None:
    """A handler, so that the signal is written to the wake-up descriptor."""


def set_up(orders: BootOrders) -> None:
    """Everything that must be there before the agent."""
    socket.sethostname(orders["name"])
    root.mount_state(orders["state"], orders["directory"])
    for path, text in orders["files"].items():
        _write_private(path, text)
    if (wiring := orders["network"]) is not None:
        for module in wiring["modules"]:
            _run("modprobe", module)
        network.configure(
            Path(orders["directory"]),
            IPv4Address(wiring["address"]),
            IPv4Network(wiring["addresses"]),
            wiring["interface"],
        )


def _write_private(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)


def _run(*argv: str) -> None:
    """A short program to its end; its output goes to the console. Raises OSError if it fails."""
    pid = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=[signal.SIGCHLD])
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(f"{' '.join(argv)} ended with status {os.waitstatus_to_exitcode(status)}")


def power_off() -> NoReturn:
    """Off, after all has been written."""
    os.sync()
    _libc.reboot(ctypes.c_uint(RB_POWER_OFF))
    raise OSError(ctypes.get_errno(), "the kernel does not switch the machine off")


def main(share_type: str, share_source: str, share_options: str, serial: str, modules: str) -> None:
    """Does not return. `modules` is the directory of the kernel's, with `RELEASE` where its release is
    meant."""
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        release = os.uname().release
        root.build((share_type, share_source, share_options), modules.replace("RELEASE", release))
        _libc.reboot(ctypes.c_uint(RB_DISABLE_CAD))
        wire = Wire(serial)
        with open(f"{root.SHARE}/boot.json") as file:
            orders: BootOrders = json.load(file)
        set_up(orders)
        wire.write({"says": "up"})
        FirstProcess(orders, wire).run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    power_off()
