"""The TCP ports at which processes listen on this host's loopback interface, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_LISTEN = "0A"
_LOOPBACK = "0100007F"
"""127.0.0.1, as /proc/net/tcp writes it on this kind of machine."""


def listening_ports(processes: Iterable[int], proc: Path = Path("/proc")) -> dict[int, bool]:
    """In this process's network namespace; True for those at 127.0.0.1 alone. Blocks."""
    held = {inode for pid in processes for inode in _sockets(proc / str(pid) / "fd")}
    found: dict[int, bool] = {}
    for table in ("net/tcp", "net/tcp6"):
        file = proc / table
        for inode, address, port in _listening(file.read_text()) if file.exists() else ():
            if inode in held:
                found[port] = address == _LOOPBACK and found.get(port, True)
    return found


def _listening(table: str) -> Iterator[tuple[str, str, int]]:
    """Inode, address and port."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, _, port = fields[1].partition(":")
        if fields[3] == _LISTEN:
            yield fields[9], address, int(port, 16)


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
