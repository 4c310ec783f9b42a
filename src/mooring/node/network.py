"""The pods' network of this host: one bridge, on which each node has its part of the addresses.

The bridge is the only record of who has which part (`bridge`), so `release` finds what is left of a node that
was killed. Pods and their host reach one another, on all nodes of this host; there is no way out of it, no
Service and no DNS: `hostNetwork: true` has the host's.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from mooring.node.bridge import (
    BRIDGE,
    PART,
    Claim,
    NetworkUnavailable,
    alone,
    claims,
    free_part,
    ip,
    ip_json,
    label,
    mac,
    make_bridge,
    settle,
)
from mooring.node.runtime import PodNetwork


def claim(root: Path, addresses: IPv4Network) -> NodeNetwork:
    """This node's part of `addresses`: the one that it has, or the first that is free. Blocks. Raises
    `NetworkUnavailable`."""
    with alone():
        make_bridge(addresses)
        held = _claim(root)
        mine = held.first if held else free_part(addresses)
        if held is None:
            _remove_links(mine)
            ip("address", "add", f"{mine}/32", "dev", BRIDGE, "label", label(root))
        settle(addresses)
        return NodeNetwork(mine, addresses)


def release(root: Path) -> bool:
    """Gives the node's part back, and removes the bridge with the last one. Blocks. True if there was a
    claim."""
    try:
        with alone():
            mine = _claim(root)
            if mine is not None:
                ip("address", "delete", f"{mine.first}/32", "dev", BRIDGE)
                settle()
            return mine is not None
    except NetworkUnavailable:  # nothing can have been claimed
        return False


def claimed(root: Path) -> bool:
    """Whether the node has a part of the addresses. Blocks."""
    return _claim(root) is not None


def _claim(root: Path) -> Claim | None:
    return next((each for each in claims() if each.label == label(root) and not each.tap), None)


def _remove_links(first: IPv4Address) -> None:
    """Removes what is left of the pods of a part that no node has: of a node that was killed, and whose part
    was given back while a process of it lived on."""
    pods = IPv4Network((first, PART), strict=False)
    names = {_interface(address) for address in pods}
    for link in ip_json("link", "show", "type", "veth"):
        if link.get("ifname") in names:
            ip("link", "delete", link["ifname"])


def _interface(address: IPv4Address) -> str:
    """The host's end of the link of the pod with this address."""
    return f"mor{int(address):08x}"


class NodeNetwork:
    """One node's part: gives out addresses, each to one pod at a time."""

    def __init__(self, gateway: IPv4Address, addresses: IPv4Network) -> None:
        self.gateway = gateway
        self._addresses = addresses
        self._last = 1

    def allocate(self, used: Iterable[str]) -> PodNetwork:
        """An address that is not `used`; the one after the last, so that none is soon used again."""
        taken = set(used)
        for step in range(1, 254):
            number = 2 + (self._last - 2 + step) % 253
            address = self.gateway + (number - 1)
            if str(address) not in taken:
                self._last = number
                prefix, gateway = self._addresses.prefixlen, str(self.gateway)
                return PodNetwork(BRIDGE, _interface(address), str(address), prefix, gateway, mac(address))
        raise NetworkUnavailable("all 253 addresses of this node are in use by pods")
