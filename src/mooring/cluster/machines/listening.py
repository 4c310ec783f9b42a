"""The ports on the loopback interface at which processes listen, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_LISTEN = "0A"
_LOOPBACK = "0100007F"
"""127.0.0.1, as /proc/net/tcp writes it on this kind of machine."""


def loopback_ports(processes: Iterable[int], proc: Path = Path("/proc")) -> list[int]:
    """Of TCP at 127.0.0.1, in this process's network namespace. Blocks."""
    listening = dict(_listening((proc / "net/tcp").read_text()))
    held = {inode for pid in processes for inode in _sockets(proc / str(pid) / "fd")}
    return sorted({port for inode, port in listening.items() if inode in held})


def _listening(table: str) -> Iterator[tuple[str, int]]:
    """Inode and port."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, _, port = fields[1].partition(":")
        if address == _LOOPBACK and fields[3] == _LISTEN:
            yield fields[9], int(port, 16)


def _sockets(descriptors: Path) -> Iterator[str]:
    """Inodes. None of a process that has gone."""
    try:
        names = os.listdir(descriptors)
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(descriptors / name)
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]
