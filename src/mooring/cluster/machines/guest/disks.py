"""The disks that are plugged into a machine: which device is which disk, and the links by which the agent
finds them.

A directory has a file for each device, named like it, that holds the disk's name; the agent's plugin verifies
a device by it (`PluggedDevices`). The host says what it has plugged in where; the kernel alone knows whether
it is in use. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

PATIENCE_S = 5.0


def plugged(directory: str, disk: str, device: str, link: str) -> None:
    """The host has plugged the disk in: makes it known. `device` is the kernel's name for it, or
    `serial:TEXT`. Raises TimeoutError if the kernel shows no such device. Idempotent."""
    deadline = time.monotonic() + PATIENCE_S
    while not (name := _found(device)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"disk {disk} is plugged in as {device}, which the kernel does not show")
        time.sleep(0.01)
    os.makedirs(directory, exist_ok=True)
    _replace(f"{directory}/{name}", disk)
    os.makedirs(os.path.dirname(link), exist_ok=True)
    _unlink(link)
    os.symlink(f"/dev/{name}", link)


def unplugged(directory: str, link: str) -> None:
    """The host has taken the device out. Idempotent."""
    if os.path.lexists(link):
        _unlink(f"{directory}/{os.path.basename(os.readlink(link))}")
        _unlink(link)


class Held:
    """Devices that are about to be taken out, held here so that nothing else can begin to use them.

    For kernels that give up a device whatever has it open, as all do when a PCI device is taken out.
    """

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}  # by link

    def hold(self, link: str) -> str:
        """Holds the device that the link leads to; or says what uses it, and does not. Idempotent."""
        if link in self._descriptors or not os.path.exists(link):
            return ""
        try:
            descriptor = os.open(link, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return "it is mounted, or part of another device"
        user = _opener(os.fstat(descriptor).st_rdev)
        if user:
            os.close(descriptor)
        else:
            self._descriptors[link] = descriptor
        return user

    def release(self, link: str) -> None:
        """Idempotent."""
        descriptor = self._descriptors.pop(link, None)
        if descriptor is not None:
            os.close(descriptor)


def _opener(device: int) -> str:
    """Which other process has the block device open; "" if none."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it has ended
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(f"/proc/{pid}/fd/{descriptor}")
                    if stat.S_ISBLK(found.st_mode) and found.st_rdev == device:
                        return f"process {pid} has it open"
    return ""


def _found(device: str) -> str:
    """The kernel's name for it; "" if it does not show it."""
    kind, _, serial = device.partition(":")
    if kind != "serial":
        return device if os.path.exists(f"/dev/{device}") else ""
    for name in os.listdir("/sys/block"):
        with contextlib.suppress(OSError), open(f"/sys/block/{name}/serial") as file:
            if file.read().strip() == serial and os.path.exists(f"/dev/{name}"):
                return name
    return ""


def _replace(path: str, text: str) -> None:
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.rename(f"{path}.new", path)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
