"""The bridge of a host's pods, and who has which part of its addresses. The kernel is the only record.

A claim is one of two things that bear a label made from a node's root directory: for a node of this host the
address `10.88.X.1` on the bridge, for a machine with a kernel of its own a tap on the bridge whose alias says
`LABEL ADDRESS NETWORK`. So a claim is found again after any crash, and no two nodes have the same part. The
first part is the host's own: it has `10.88.0.1` while there is a tap.

The standard library and `ip` are enough, so it runs in any machine, soon after its boot.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import socket
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

BRIDGE = "mooring0"
PART = 24
"""Prefix length of a node's part."""
_LOCK = Path("/run/mooring-network.lock")
_TAP = "mot"
"""What the names of taps begin with; those of pods' links begin with `mor`."""


class NetworkUnavailable(Exception):
    """Pods or machines cannot have networks of their own here; the message says why, and what would help."""


@dataclass(frozen=True)
class Claim:
    """One node's part: `first` is its address `10.88.X.1`. `tap` is "" for a node of this host."""

    label: str
    first: IPv4Address
    tap: str = ""
    network: IPv4Network | None = None
    """All addresses, where the claim says it (a tap's does)."""


def label(root: Path) -> str:
    """Of the node with this root directory; at most 15 characters, as the kernel demands."""
    return f"{BRIDGE}:{_digest(root)}"


def tap_name(root: Path) -> str:
    """The tap of the machine with this root directory; at most 15 characters."""
    return f"{_TAP}{_digest(root)}"


def _digest(root: Path) -> str:
    return hashlib.sha256(str(root).encode()).hexdigest()[:6]


def host_address(addresses: IPv4Network) -> IPv4Address:
    """The host's own, where machines reach it."""
    return addresses.network_address + 1


def mac(address: IPv4Address) -> str:
    """The hardware address of an interface with this address: stable, so that what others have learned of it
    stays true."""
    return ":".join(f"{byte:02x}" for byte in b"\x0a\x58" + address.packed)


def make_bridge(addresses: IPv4Network) -> None:
    """Idempotent. Raises NetworkUnavailable, also if something else uses the addresses."""
    others = [
        route["dev"] for route in ip_json("route", "show", "root", str(addresses)) if route["dev"] != BRIDGE
    ]
    if others:
        raise NetworkUnavailable(f"{addresses} is used by {others[0]}: choose others with --pod-network")
    if not exists(BRIDGE):
        ip("link", "add", BRIDGE, "address", mac(host_address(addresses)), "type", "bridge")
    ip("link", "set", BRIDGE, "up")


def claims() -> list[Claim]:
    """All of this host. Raises NetworkUnavailable."""
    return _claims(_bridge_addresses())


def free_part(addresses: IPv4Network) -> IPv4Address:
    """The first address of the first part that no node has. Raises NetworkUnavailable if there is none."""
    taken = {claim.first for claim in claims()}
    parts = (part.network_address + 1 for part in addresses.subnets(new_prefix=PART))
    first = next((each for each in list(parts)[1:] if each not in taken), None)
    if first is None:
        raise NetworkUnavailable(f"all parts of {addresses} are taken: take down clusters that are not used")
    return first


def settle(addresses: IPv4Network | None = None) -> None:
    """What follows from the claims: the host's address is there while there is a tap, the route leads to the
    bridge, and the bridge goes with the last claim. Without `addresses` only the last is looked at.
    Idempotent."""
    if not exists(BRIDGE):
        return
    held = _bridge_addresses()
    present = _claims(held)
    if not present:
        ip("link", "delete", BRIDGE)
    elif addresses is not None:
        host = host_address(addresses)
        with_host = any(claim.network == addresses for claim in present)
        if with_host != (host in held):
            ip("address", "add" if with_host else "delete", f"{host}/32", "dev", BRIDGE)
        ip("route", "replace", str(addresses), "dev", BRIDGE, *(("src", str(host)) if with_host else ()))


def _claims(addresses: dict[IPv4Address, str]) -> list[Claim]:
    """Those of addresses of the bridge, and of taps."""
    return [Claim(name, address) for address, name in addresses.items() if name not in ("", BRIDGE)] + _taps()


def _bridge_addresses() -> dict[IPv4Address, str]:
    """Those of the bridge, with their labels."""
    if not exists(BRIDGE):
        return {}
    links = ip_json("address", "show", "dev", BRIDGE)
    entries = [entry for link in links for entry in link.get("addr_info", [])]
    return {IPv4Address(entry["local"]): entry.get("label", "") for entry in entries}


def _taps() -> list[Claim]:
    found: list[Claim] = []
    for link in ip_json("link", "show", "type", "tun"):
        words = link.get("ifalias", "").split()
        if link.get("ifname", "").startswith(_TAP) and len(words) == 3:
            name, first, network = words
            with contextlib.suppress(ValueError):  # another program's
                found.append(Claim(name, IPv4Address(first), link["ifname"], IPv4Network(network)))
    return found


def exists(link: str) -> bool:
    """Whether there is such a link in this process's network namespace (/sys tells of the one it was mounted
    in)."""
    try:
        return socket.if_nametoindex(link) > 0
    except OSError:
        return False


def ip_json(*words: str) -> list[dict[str, Any]]:
    """What `ip` prints. Raises NetworkUnavailable."""
    return [entry for entry in json.loads(ip("-json", "-4", *words) or "[]") if entry]


def ip_batch(*commands: str) -> None:
    """Several commands by one process, until one fails. Raises NetworkUnavailable."""
    ip("-batch", "-", given="".join(f"{command}\n" for command in commands))


def ip(*words: str, given: str | None = None) -> str:
    """Raises NetworkUnavailable. `given` is on its standard input."""
    try:
        done = subprocess.run(["ip", *words], input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NetworkUnavailable("there is no `ip`: apt-get install iproute2") from None
    if done.returncode:
        raise NetworkUnavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def alone() -> Generator[None, None, None]:
    """One process of this host at a time. Raises NetworkUnavailable."""
    try:
        lock = _LOCK.open("w")
    except OSError as error:
        raise NetworkUnavailable(f"only root can make one ({_LOCK}: {error.strerror})") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
