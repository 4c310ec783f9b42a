"""The host's side of a machine's network: a tap on the bridge of the pods, and the machine's part of the
addresses.

The kernel is the only record (`mooring.node.bridge`): the tap's name is made from the machine's root
directory, its alias says which part the machine has. It stays when the machine loses its power, as a cable
does; `unplug` takes it away, also after a crash of everything that knew of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from mooring.node.bridge import (
    BRIDGE,
    Claim,
    NetworkUnavailable,
    alone,
    claims,
    exists,
    free_part,
    host_address,
    ip,
    label,
    mac,
    make_bridge,
    settle,
    tap_name,
)


@dataclass(frozen=True)
class MachineNetwork:
    """Where a machine is plugged in, and what its own side has to know (`guest.network`)."""

    tap: str
    address: IPv4Address
    """The machine's own, `10.88.X.1`; its pods have the rest of that part."""
    addresses: IPv4Network
    """Of all pods and machines: they reach one another on one link, without a router."""
    host: IPv4Address
    """Where the machine reaches this host."""
    mac: str
    """Of the machine's interface."""


def plug(
    root: Path, addresses: IPv4Network, first_free: Callable[[IPv4Network], IPv4Address] = free_part
) -> MachineNetwork:
    """The tap and the part of the machine with this root directory: those that it has, or new ones (the
    address that `first_free` gives), on the bridge and up. Idempotent. Blocks. Raises NetworkUnavailable."""
    tap = tap_name(root)
    with alone():
        make_bridge(addresses)
        held = _claim(root)
        if held is not None and held.network != addresses:
            ip("link", "delete", tap)  # it was plugged in among other addresses
            held = None
        first = held.first if held else first_free(addresses)
        if not exists(tap):
            _make(tap)
        if held is None:
            ip("link", "set", tap, "alias", f"{label(root)} {first} {addresses}")
        ip("link", "set", tap, "master", BRIDGE)
        ip("link", "set", tap, "up")
        settle(addresses)
    return MachineNetwork(tap, first, addresses, host_address(addresses), mac(first))


def unplug(root: Path) -> bool:
    """Takes the tap away, and the host's address and the bridge with the last one. Idempotent. Blocks. True
    if there was a tap."""
    try:
        with alone():
            tap, held = tap_name(root), _claim(root)
            found = exists(tap)
            if found:
                ip("link", "delete", tap)
                settle(held.network if held else None)
            return found
    except NetworkUnavailable:  # nothing can have been plugged in
        return False


def plugged(root: Path) -> bool:
    """Whether the machine has a tap. Blocks."""
    return exists(tap_name(root))


def _make(tap: str) -> None:
    try:
        ip("tuntap", "add", "dev", tap, "mode", "tap")
    except NetworkUnavailable as error:
        raise NetworkUnavailable(
            f"a machine needs a tap, and there can be none ({error}): it needs root and /dev/net/tun "
            "(modprobe tun)"
        ) from None


def _claim(root: Path) -> Claim | None:
    return next((each for each in claims() if each.tap == tap_name(root)), None)
