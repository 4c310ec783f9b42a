"""The addresses of storage servers: `10.88.0.2` and on, in the host's part of the machines' addresses.

A server on the host has its address on the bridge, one in a machine has it on its tap; both with a label made
from the server's directory, as nodes have theirs (`mooring.node.bridge`). So it is found again after any
crash.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.network import MachineNetwork, plug, unplug
from mooring.node.bridge import (
    BRIDGE,
    PART,
    NetworkUnavailable,
    alone,
    claims,
    host_address,
    ip,
    label,
    make_bridge,
    settle,
)


def free(addresses: IPv4Network, taken: Collection[IPv4Address]) -> IPv4Address:
    """The first that no storage server has, of this cluster (`taken`) or of another one on this host. Blocks.
    Raises ClusterError."""
    used = {*taken, *(claim.first for claim in claims()), host_address(addresses)}
    found = next((each for each in _host_part(addresses).hosts() if each not in used), None)
    if found is None:
        raise ClusterError(f"all addresses of {_host_part(addresses)} are taken: remove storage servers")
    return found


def give_host(directory: Path, address: IPv4Address, addresses: IPv4Network) -> None:
    """The host has the address, for the server of this directory. Idempotent. Blocks. Raises ClusterError."""
    try:
        with alone():
            make_bridge(addresses)
            if not _has(directory, address):
                ip("address", "add", f"{address}/32", "dev", BRIDGE, "label", label(directory))
            settle(addresses)
    except NetworkUnavailable as error:
        raise ClusterError(f"{address}: {error}") from error


def give_machine(directory: Path, address: IPv4Address, addresses: IPv4Network) -> MachineNetwork:
    """A tap with that address, for the server's machine. Idempotent. Blocks. Raises ClusterError."""
    try:
        with alone():
            _has(directory, address)
        return plug(directory, addresses, lambda _: address)
    except NetworkUnavailable as error:
        raise ClusterError(f"{address}: {error}") from error


def _has(directory: Path, address: IPv4Address) -> bool:
    holder = next((claim for claim in claims() if claim.first == address), None)
    if holder is not None and holder.label != label(directory):
        raise ClusterError(f"{address} is used by another cluster of this host: take that down")
    return holder is not None


def held(directory: Path) -> bool:
    """Whether the server of this directory has an address. Blocks."""
    try:
        return any(claim.label == label(directory) for claim in claims())
    except NetworkUnavailable:
        return False


def take_back(directory: Path) -> bool:
    """The server's address is free again. Idempotent. Blocks. True if it had one."""
    try:
        tap = unplug(directory)
        with alone():
            mine = [each for each in claims() if each.label == label(directory) and not each.tap]
            for claim in mine:
                ip("address", "delete", f"{claim.first}/32", "dev", BRIDGE)
            settle()
        return tap or bool(mine)
    except NetworkUnavailable:  # it cannot have had one
        return False


def part(machine: MachineNetwork) -> IPv4Network:
    """All addresses of a node's machine and its pods."""
    return IPv4Network((int(machine.address) & ~0xFF, PART))


def _host_part(addresses: IPv4Network) -> IPv4Network:
    return IPv4Network((addresses.network_address, PART))
