"""By what a storage server knows a machine, and whether it serves the volumes that are meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from mooring.fence.interface import Order, Volume

Network = IPv4Network | IPv6Network
ALL = "ALL"


class BadClient(Exception):
    """The order does not say who is to be shut out."""


@dataclass(frozen=True)
class Client:
    """`networks`: all its addresses; `names`: those that its kernel logs in under."""

    networks: tuple[Network, ...]
    names: tuple[str, ...]

    def has(self, address: str) -> bool:
        """Whether an address, or all of a network, is its own."""
        found = networks([address])
        return bool(found) and any(_inside(found[0], each) for each in self.networks)

    def overlaps(self, entry: str) -> bool:
        """Whether an entry of an access list lets any of its addresses in."""
        found = networks([entry])
        return entry == ALL or (bool(found) and any(found[0].overlaps(each) for each in self.networks))


def client_of(order: Order) -> Client:
    """Its addresses, with those of the parameter `networks`. Raises BadClient."""
    texts = [*order.target.addresses, *listed(order.parameters.get("networks", ""))]
    found = networks(texts)
    if len(found) != len(texts):
        wrong = [each for each in texts if not networks([each])]
        raise BadClient(f"{', '.join(wrong)} is no IP address or network")
    if any(each.is_loopback and each.num_addresses > 1 for each in found):
        raise BadClient("a network of loopback addresses is not one machine's")
    if not found and not order.target.initiators:
        raise BadClient(f"neither an address of {order.target.node} nor its initiator's name is known")
    return Client(tuple(found), order.target.initiators)


def networks(texts: Iterable[str]) -> list[Network]:
    """Those of them that are addresses or networks."""
    found: list[Network] = []
    for text in texts:
        try:
            found.append(ip_network(text.strip(), strict=False))
        except ValueError:
            continue
    return found


def address(text: str) -> IPv4Address | IPv6Address | None:
    """None for what is none."""
    try:
        return ip_address(text.strip())
    except ValueError:
        return None


def listed(text: str) -> list[str]:
    """The words of a parameter with commas."""
    return [each.strip() for each in text.split(",") if each.strip()]


def uncovered(volumes: Iterable[Volume], served: str, within: str) -> list[str]:
    """Problems: volumes that are not of what is shut here (a target, an export), so that their writes would
    go on."""
    return [
        f"the volume {each.name} is not of {served}: its writes would not be stopped"
        for each in volumes
        if not is_of(each, served, within)
    ]


def is_of(volume: Volume, served: str, within: str) -> bool:
    """Whether the volume is what is served, or a part of it: its name goes on with `within`."""
    return volume.name == served or volume.name.startswith(served.rstrip(within) + within)


def _inside(one: Network, other: Network) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.subnet_of(other)
    return isinstance(other, IPv6Network) and one.subnet_of(other)
