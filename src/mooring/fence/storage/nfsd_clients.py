"""What a kernel's NFS server exports to whom, and who its clients are, from what exportfs and /proc/fs/nfsd
print. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mooring.fence.storage.clients import Client, networks

CLIENTS = "/proc/fs/nfsd/clients"
LIST = f'for each in {CLIENTS}/*; do [ -e "$each/info" ] && echo "@ $each" && cat "$each/info"; done; true'
"""Prints each client's directory, and what it is."""
_EXPORT = re.compile(r"^(/\S*)\s+(\S+?)\(([^)]*)\)\s*$", re.MULTILINE)
_DIRECTORY = re.compile(rf"@ ({CLIENTS}/[0-9]{{1,20}})", re.ASCII)
_ADDRESS = re.compile(r'\s*address: "\[?([0-9a-fA-F.:]{2,45}?)\]?:[0-9]{1,5}"\s*', re.ASCII)


@dataclass(frozen=True)
class Known:
    """A client that the kernel knows; `address` is "" if it does not say."""

    directory: str
    address: str = ""


def exported(output: str, path: str) -> list[str]:
    """To whom a path is exported, by what `exportfs -s` prints."""
    return [who for where, who, _ in _EXPORT.findall(output) if where == path]


def known(output: str) -> list[Known]:
    """By what LIST prints."""
    found: list[Known] = []
    for line in output.splitlines():
        if head := _DIRECTORY.fullmatch(line):
            found.append(Known(head[1]))
        elif (at := _ADDRESS.fullmatch(line)) and found:
            found[-1] = Known(found[-1].directory, at[1])
    return found


def theirs(clients: list[Known], client: Client) -> list[Known]:
    """The client's, and those that say no address."""
    return [each for each in clients if not networks([each.address]) or client.has(each.address)]


def lets_in(entries: list[str], client: Client) -> bool:
    """Whether one of the entries may let it in. Of names, wildcards and netgroups it is not known."""
    return any(client.overlaps(each) if networks([each]) else True for each in entries)


def serves_version_3(versions: str) -> bool:
    """By /proc/fs/nfsd/versions."""
    return "+3" in versions.split() or "+2" in versions.split()
