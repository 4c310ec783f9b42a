"""What tgtd serves, lets in and is connected to, as `tgtadm --op show --mode target` prints it; what shuts a
client out; how much went through, as `--op stat` prints it. Pure.

tgt lets an initiator in if its address is in the list, or its name: one of them is enough. A connection of a
client goes on when the client is taken out of the list. A nexus without a connection is one whose commands
have not ended: tgtd keeps it until they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mooring.fence.storage.clients import ALL, Client, networks


@dataclass(frozen=True)
class Nexus:
    """A session of one initiator, with its connections' numbers and addresses ("" if it does not say)."""

    session: str
    name: str = ""
    connections: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Served:
    """One target."""

    number: str
    acl: tuple[str, ...] = ()
    nexuses: tuple[Nexus, ...] = field(default_factory=tuple[Nexus, ...])


def parse(text: str) -> dict[str, Served]:
    """Targets by name; lines that are not understood are passed over."""
    found: dict[str, Served] = {}
    name = section = ""
    for line in text.splitlines():
        words = line.strip()
        if head := re.fullmatch(r"Target ([0-9]{1,9}): (\S+)", line, re.ASCII):
            name, section = head[2], ""
            found[name] = Served(head[1])
        elif name and re.fullmatch(r" {4}\S.*:", line):
            section = words
        elif name and section == "ACL information:" and line.startswith(" " * 8) and words:
            found[name] = replace(found[name], acl=(*found[name].acl, words))
        elif name and section == "I_T nexus information:":
            found[name] = replace(found[name], nexuses=_with(found[name].nexuses, words))
    return found


def _with(nexuses: tuple[Nexus, ...], words: str) -> tuple[Nexus, ...]:
    if begins := re.fullmatch(r"I_T nexus: ([0-9]{1,20})", words, re.ASCII):
        return (*nexuses, Nexus(begins[1]))
    if not nexuses:
        return nexuses
    last = nexuses[-1]
    if named := re.fullmatch(r"Initiator: (\S+)(?: alias: .*)?", words):
        last = replace(last, name=named[1])
    elif number := re.fullmatch(r"Connection: ([0-9]{1,9})", words, re.ASCII):
        last = replace(last, connections=(*last.connections, (number[1], "")))
    elif (at := re.fullmatch(r"IP Address: (\S+)", words)) and last.connections:
        last = replace(last, connections=(*last.connections[:-1], (last.connections[-1][0], at[1])))
    return (*nexuses[:-1], last)


_ROW = re.compile(r"\s*[0-9]{1,9}\s+([0-9]{1,9})\s+([0-9]{1,20})((?:\s+[0-9]{1,20}){9})\s*", re.ASCII)
"""Target, LUN, session; bytes and commands that were begun and ended, of reads and of writes; errors."""


def traffic(text: str) -> dict[tuple[str, str], int]:
    """Bytes that were asked for, by session and LUN; lines that are not understood are passed over."""
    found: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        if row := _ROW.fullmatch(line):
            counts = [int(each) for each in row[3].split()]
            found[row[2], row[1]] = counts[0] + counts[4]
    return found


def is_name(entry: str) -> bool:
    """Whether an entry of the list is an initiator's name, not an address."""
    return entry != ALL and not networks([entry])


def entries_of(served: Served, client: Client, listed: Iterable[str] = ()) -> list[str]:
    """The client's own entries of the list: those that name it alone."""
    own = {*listed, *client.names}
    return [each for each in served.acl if each in own or client.has(each)]


def lets_in(acl: Iterable[str], client: Client) -> bool:
    """Whether a list may let the client log in: by one of its addresses, or of its names. Where it is not
    known what addresses or names it has, any may be its own."""
    return any(
        (not client.names or each in client.names)
        if is_name(each)
        else (not client.networks or client.overlaps(each))
        for each in acl
    )


def sessions_of(served: Served, client: Client) -> list[Nexus]:
    """The client's; one of which neither name nor address is told may be its own."""
    return [
        each
        for each in served.nexuses
        if each.name in client.names
        or any(client.has(at) for _, at in each.connections)
        or (not each.name and not any(at for _, at in each.connections))
    ]
