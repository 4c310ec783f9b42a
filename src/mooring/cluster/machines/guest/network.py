"""The machine's own side of its network: runs in the machine, before its agent.

Makes the bridge of the machine's pods, with the interface to the host as one of its ports, and the claim that
the agent will find (`mooring.node.network.claim`): so its pods are on one link with those of all other nodes.

`python -m mooring.cluster.machines.guest.network ROOT ADDRESS NETWORK [INTERFACE]`. Imports the standard
library and `mooring.node.bridge` only.
"""

from __future__ import annotations

import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from mooring.node.bridge import BRIDGE, exists, ip_batch, label, mac

INTERFACE = "vec0"
"""Its name in every machine, as User-mode Linux's vector transport has it."""
MODULES = ("llc", "stp", "crc-ccitt", "ipv6", "bridge", "veth")
"""The guest's kernel needs them, in this order where no `modprobe` resolves what they depend on."""


def configure(root: Path, address: IPv4Address, addresses: IPv4Network, interface: str = INTERFACE) -> None:
    """Gives the machine its address; `root` is the root directory that its agent is given, `interface` what
    its kernel calls the interface at first. Idempotent. Blocks. Raises NetworkUnavailable."""
    make = [] if exists(BRIDGE) else [f"link add {BRIDGE} address {mac(address)} type bridge"]
    rename = interface != INTERFACE and not exists(INTERFACE)
    ip_batch(
        "link set lo up",
        *make,
        *([f"link set {interface} name {INTERFACE}"] if rename else []),
        f"link set {INTERFACE} address {mac(address)} master {BRIDGE} up",
        f"link set {BRIDGE} up",
        f"address replace {address}/32 dev {BRIDGE} label {label(root)}",
        f"route replace {addresses} dev {BRIDGE}",
    )


def main() -> None:
    """The command line."""
    root, address, addresses, *interface = sys.argv[1:]
    configure(Path(root), IPv4Address(address), IPv4Network(addresses), *interface)


if __name__ == "__main__":
    main()
