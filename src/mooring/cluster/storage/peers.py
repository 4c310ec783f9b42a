"""Who is connected to a server of this host, by the kernel's word: no client can make it say something
else, as it can with what servers print of names that clients gave themselves. The parsing is pure.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from pathlib import Path

_ESTABLISHED = "01"
_ROW = re.compile(r"\s*\d+: ([0-9A-F]{8}):([0-9A-F]{4}) ([0-9A-F]{8}):[0-9A-F]{4} ([0-9A-F]{2}) .*", re.ASCII)


def peers(address: IPv4Address, port: int, table: Path = Path("/proc/self/net/tcp")) -> set[IPv4Address]:
    """Those with a connection to this address and port that is established. Blocks."""
    return parse(table.read_text(), address, port)


def parse(table: str, address: IPv4Address, port: int) -> set[IPv4Address]:
    """From what /proc/net/tcp says (proc(5)); lines that are not understood are passed over."""
    rows = (match.groups() for line in table.splitlines() if (match := _ROW.fullmatch(line)))
    return {
        _address(remote)
        for local, at, remote, state in rows
        if state == _ESTABLISHED and _address(local) == address and int(at, 16) == port
    }


def _address(text: str) -> IPv4Address:
    """The kernel prints it as a number of this machine, which is little-endian."""
    return IPv4Address(bytes.fromhex(text)[::-1])
