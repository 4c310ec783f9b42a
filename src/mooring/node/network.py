"""The pods' network of this host: one bridge, on which each node has its part of the addresses.

The bridge and its addresses are the only record: a node's claim is the address `10.88.X.1` on the bridge,
with a label made from the node's root directory. So a claim is found again after any crash, two nodes never
have the same part, and `release` finds what is left of a node that was killed. Pods and their host reach one
another, on all nodes of this host; there is no way out of it, no Service and no DNS: `hostNetwork: true` has
the host's.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import subprocess
from collections.abc import Generator, Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from mooring.node.runtime import PodNetwork

BRIDGE = "mooring0"
PART = 24
"""Prefix length of a node's part."""
_LOCK = Path("/run/mooring-network.lock")


class NetworkUnavailable(Exception):
    """Pods cannot have networks of their own here; the message says why, and what would help."""


def claim(root: Path, addresses: IPv4Network) -> NodeNetwork:
    """This node's part of `addresses`: the one that it has, or the first that is free. Blocks. Raises
    `NetworkUnavailable`."""
    with _alone():
        _make_bridge(addresses)
        held = _claims()
        mine = held.get(_label(root))
        if mine is None:
            taken = set(held.values())
            parts = (part.network_address + 1 for part in addresses.subnets(new_prefix=PART))
            mine = next((first for first in list(parts)[1:] if first not in taken), None)
            if mine is None:
                raise NetworkUnavailable(
                    f"all parts of {addresses} are taken: take down clusters that are not used"
                )
            _ip("address", "add", f"{mine}/32", "dev", BRIDGE, "label", _label(root))
        _ip("route", "replace", str(addresses), "dev", BRIDGE)
        return NodeNetwork(mine, addresses)


def release(root: Path) -> bool:
    """Gives the node's part back, and removes the bridge with the last one. Blocks. True if there was a
    claim."""
    try:
        with _alone():
            mine = _claims().get(_label(root))
            if mine is not None:
                _ip("address", "delete", f"{mine}/32", "dev", BRIDGE)
            if mine is not None and not _claims():
                _ip("link", "delete", BRIDGE)
            return mine is not None
    except NetworkUnavailable:  # nothing can have been claimed
        return False


def claimed(root: Path) -> bool:
    """Whether the node has a part of the addresses. Blocks."""
    return _label(root) in _claims()


class NodeNetwork:
    """One node's part: gives out addresses, each to one pod at a time."""

    def __init__(self, gateway: IPv4Address, addresses: IPv4Network) -> None:
        self._gateway = gateway
        self._addresses = addresses
        self._last = 1

    def allocate(self, used: Iterable[str]) -> PodNetwork:
        """An address that is not `used`; the one after the last, so that none is soon used again."""
        taken = set(used)
        for step in range(1, 254):
            number = 2 + (self._last - 2 + step) % 253
            address = self._gateway + (number - 1)
            if str(address) not in taken:
                self._last = number
                interface = f"mor{int(address):08x}"
                return PodNetwork(
                    BRIDGE, interface, str(address), self._addresses.prefixlen, str(self._gateway)
                )
        raise NetworkUnavailable("all 253 addresses of this node are in use by pods")


def _make_bridge(addresses: IPv4Network) -> None:
    others = [
        route["dev"] for route in _ip_json("route", "show", "root", str(addresses)) if route["dev"] != BRIDGE
    ]
    if others:
        raise NetworkUnavailable(f"{addresses} is used by {others[0]}: choose others with --pod-network")
    if not Path("/sys/class/net", BRIDGE).exists():
        _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("link", "set", BRIDGE, "up")


def _claims() -> dict[str, IPv4Address]:
    """By label."""
    if not Path("/sys/class/net", BRIDGE).exists():
        return {}
    entries = [
        entry for link in _ip_json("address", "show", "dev", BRIDGE) for entry in link.get("addr_info", [])
    ]
    return {
        entry["label"]: IPv4Address(entry["local"])
        for entry in entries
        if entry.get("label", BRIDGE) != BRIDGE
    }


def _label(root: Path) -> str:
    """At most 15 characters."""
    return f"{BRIDGE}:{hashlib.sha256(str(root).encode()).hexdigest()[:6]}"


def _ip_json(*words: str) -> list[dict[str, Any]]:
    return json.loads(_ip("-json", "-4", *words) or "[]")


def _ip(*words: str) -> str:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NetworkUnavailable("there is no `ip`: apt-get install iproute2") from None
    if done.returncode:
        raise NetworkUnavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def _alone() -> Generator[None, None, None]:
    """One agent of this host at a time."""
    try:
        lock = _LOCK.open("w")
    except OSError as error:
        raise NetworkUnavailable(f"only root can make one ({_LOCK}: {error.strerror})") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
