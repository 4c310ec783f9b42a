"""The disks that are plugged into a machine: which device is which disk, and the links by which the agent
finds them.

A directory has a file for each device, named like it, that holds the disk's name; the agent's plugin verifies
a device by it (`PluggedDevices`). The host says what it has plugged in where; the kernel alone knows whether
it is in use. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time

PATIENCE_S = 5.0


def plugged(directory: str, disk: str, device: str, link: str) -> None:
    """The host has plugged the disk in: makes it known. Raises TimeoutError if the kernel shows no such
    device. Idempotent."""
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(f"/dev/{device}"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"disk {disk} is plugged in as {device}, which the kernel does not show")
        time.sleep(0.01)
    os.makedirs(directory, exist_ok=True)
    _replace(f"{directory}/{device}", disk)
    os.makedirs(os.path.dirname(link), exist_ok=True)
    _unlink(link)
    os.symlink(f"/dev/{device}", link)


def unplugged(directory: str, device: str, link: str) -> None:
    """The host has taken the device out. Idempotent."""
    if os.path.lexists(link) and os.readlink(link) == f"/dev/{device}":
        _unlink(link)
    _unlink(f"{directory}/{device}")


def _replace(path: str, text: str) -> None:
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.rename(f"{path}.new", path)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
