"""What an iSCSI target of tgt lets in and who is connected, as `tgtadm --op show --mode target` prints it;
and what has to be done so that it is as it should be. Pure.

Taking an initiator's address out of the ACL refuses its next login alone: its sessions go on, so each of
their connections is closed too (tgtadm(8)).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from mooring.cluster.storage.record import initiator

TARGET = "1"
"""The target's number: each server has one."""


@dataclass(frozen=True)
class Connection:
    """An initiator's connection to the target."""

    session: str
    number: str
    address: IPv4Address | None
    """None if tgt does not say it: it has just gone, or it is no TCP connection."""


@dataclass(frozen=True)
class Access:
    """Who may log in, by address and by name, and who has."""

    lets_in: frozenset[str] = field(default_factory=frozenset[str])
    connections: tuple[Connection, ...] = ()


def parse(text: str) -> Access:
    """Of the one target that `text` tells of; lines that are not understood are passed over."""
    lets_in: set[str] = set()
    found: list[Connection] = []
    section = session = number = ""
    for line in text.splitlines():
        word, colon, value = line.strip().partition(":")
        if line.startswith("    ") and line[4:5] not in ("", " ") and line.rstrip().endswith("information:"):
            section = line.strip()
        elif section == "ACL information:" and line.startswith(" " * 8) and line.strip():
            lets_in.add(line.strip())
        elif section == "I_T nexus information:" and colon:
            if word == "I_T nexus":
                session = _number(value)
            elif word == "Connection":
                number = _number(value)
                found.append(Connection(session, number, None))
            elif word == "IP Address" and found:
                found[-1] = Connection(session, number, _address(value))
    return Access(frozenset(lets_in), tuple(each for each in found if each.session and each.number))


def _number(text: str) -> str:
    match = re.fullmatch(r"\s*([0-9]{1,12})\s*", text, re.ASCII)
    return match[1] if match else ""


def _address(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text.strip())
    except ValueError:
        return None


def wanted(clients: Mapping[str, IPv4Network]) -> frozenset[str]:
    """What the ACL is to consist of."""
    return frozenset({*map(str, clients.values()), *map(initiator, clients)})


def acl_orders(access: Access, clients: Mapping[str, IPv4Network]) -> list[list[str]]:
    """Words for tgtadm that make the ACL what it is to be: those who must not come in first."""
    wish = wanted(clients)
    return [
        ["--op", operation, "--mode", "target", "--tid", TARGET, "-Q" if "iqn." in rule else "-I", rule]
        for operation, rules in (("unbind", access.lets_in - wish), ("bind", wish - access.lets_in))
        for rule in sorted(rules)
    ]


def unwelcome(access: Access, clients: Mapping[str, IPv4Network]) -> list[Connection]:
    """Connections of those who must not be connected; one whose address is not known is none of theirs only
    if it has gone at the next look."""
    return [each for each in access.connections if not _is_of(each.address, clients.values())]


def closing(connection: Connection) -> list[str]:
    """Words for tgtadm that close it."""
    of = ["--tid", TARGET, "--sid", connection.session, "--cid", connection.number]
    return ["--op", "delete", "--mode", "conn", *of]


def _is_of(address: IPv4Address | None, parts: Collection[IPv4Network]) -> bool:
    return address is not None and any(address in part for part in parts)
