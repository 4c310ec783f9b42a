"""A watchdog that a driver of this machine's kernel shows as /dev/watchdogN.

What it is, is read from /sys before the device is opened, for opening it arms it. Refused are: one that the
kernel plays itself; any on a virtual machine, whose hypervisor stops the watchdog with the machine; one that
a mere close would stop (neither `nowayout` nor magic close); one that another program holds, as systemd does
with RuntimeWatchdogSec=, which feeds it by being alive. Sources: Documentation/watchdog/watchdog-api.rst,
Documentation/ABI/testing/sysfs-class-watchdog, drivers/watchdog/watchdog_dev.c of Linux.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from mooring.mounts.blocking import blocking
from mooring.node.self_fence.watchdog import Armed, WatchdogRefused
from mooring.volumes.self_fence import is_software

KEEPALIVE, SETTIMEOUT, GETTIMEOUT = 0x80045705, 0xC0045706, 0x80045707
CAN_SET_TIME, MAGIC_CLOSE = 0x0080, 0x0100
"""Of `options`."""
LONGEST_S = 3600
SYS, CPUS = Path("/sys"), Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Said:
    """What the kernel says of a watchdog: `no_way_out`: once armed it cannot be disarmed."""

    identity: str
    options: int
    no_way_out: bool
    virtual: bool


def refusal(said: Said) -> str:
    """Why it cannot be relied upon; "" if it can. Pure."""
    if not said.identity:
        return "the kernel does not tell what this watchdog is (CONFIG_WATCHDOG_SYSFS)"
    if is_software(said.identity):
        return f"{said.identity!r} is played by this machine's own kernel, and stands still when the machine does"
    if said.virtual:
        return (
            f"this is a virtual machine, and its hypervisor stops {said.identity!r} with it: use a mechanism that asks "
            "the hypervisor"
        )
    if not said.no_way_out and not said.options & MAGIC_CLOSE:
        return f"{said.identity!r} stops when its device is closed: load its driver with nowayout=1"
    if not said.options & CAN_SET_TIME:
        return f"the time of {said.identity!r} cannot be set"
    return ""


class LinuxWatchdog:
    """One device. `sys` and `cpus`: where the kernel tells of it."""

    def __init__(self, path: Path, sys: Path = SYS, cpus: Path = CPUS) -> None:
        self._path, self._sys, self._cpus = path, sys, cpus
        self._descriptor = -1
        self._no_way_out = False

    async def arm(self, seconds: float) -> Armed:
        return await blocking(self._arm, seconds)

    async def feed(self) -> None:
        await blocking(fcntl.ioctl, self._descriptor, KEEPALIVE, bytes(4))

    async def disarm(self) -> None:
        if self._descriptor >= 0:
            await blocking(self._disarm)

    def _arm(self, seconds: float) -> Armed:
        said = self.said()
        if why := refusal(said):
            raise WatchdogRefused(why)
        try:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise WatchdogRefused(
                f"{self._path} is held by another program, which feeds it: set RuntimeWatchdogSec=0 in systemd's "
                "system.conf, or stop the program watchdog(8)"
            ) from None
        self._no_way_out = said.no_way_out
        try:
            armed = self._set_time(min(math.ceil(seconds), LONGEST_S))
        except OSError as error:
            self._disarm()
            raise WatchdogRefused(f"{said.identity!r} takes no time of {seconds:g} s: {error}") from None
        return Armed(said.identity, float(armed), fed_by_close=True)

    def _set_time(self, seconds: int) -> int:
        """The time that it really has by then."""
        fcntl.ioctl(self._descriptor, SETTIMEOUT, struct.pack("i", seconds))
        (armed,) = struct.unpack("i", fcntl.ioctl(self._descriptor, GETTIMEOUT, bytes(4)))
        fcntl.ioctl(self._descriptor, KEEPALIVE, bytes(4))
        return int(armed)

    def _disarm(self) -> None:
        if self._no_way_out:
            raise WatchdogRefused(f"{self._path} cannot be disarmed (nowayout)")
        os.write(self._descriptor, b"V")  # only after it does a close stop the watchdog
        os.close(self._descriptor)
        self._descriptor = -1

    def said(self) -> Said:
        """Opens nothing. Blocks."""
        number = self._path.stat().st_rdev
        told = self._sys / "dev" / "char" / f"{os.major(number)}:{os.minor(number)}"
        return Said(
            _text(told / "identity"),
            int(_text(told / "options") or "0", 0),
            _text(told / "nowayout") == "1",
            " hypervisor" in _text(self._cpus),
        )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
