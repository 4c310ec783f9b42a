"""The rules of a fence: from what is known of a machine to the text for nft, and whether the kernel has them.
Pure.

A frame is the machine's by its MAC address, by its IP or ARP address, or by the bridge's port that it comes
from. The table of family `bridge` sees frames between two ports of one bridge, which the family `inet` does
not; the table of family `inet` sees what is routed. Both are before connection tracking and before any
other firewall, so that open connections end, too. No element has a timeout, so a fence never ends by itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, cast

Network = IPv4Network | IPv6Network
FAMILIES = ("bridge", "inet")
PRIORITY = -310
"""Before `raw` (-300), and so before connection tracking (-200)."""
WORST = 4096
"""The largest number of addresses that one network of IPv4 may have: more is surely a mistake."""
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)
_PORT = re.compile(r"[A-Za-z0-9_.-]{1,15}", re.ASCII)


class BadFence(Exception):
    """No such fence can be made."""


@dataclass(frozen=True)
class Way:
    """A way that is left open: a server's address and TCP port."""

    address: IPv4Address | IPv6Address
    port: int


@dataclass(frozen=True)
class Fence:
    """What is cut off. `way` is None if nothing is left open."""

    macs: tuple[str, ...]
    networks: tuple[Network, ...]
    ports: tuple[str, ...]
    way: Way | None


def table(node: str, token: str) -> str:
    """The name of a fence's tables."""
    return f"mooring-fence-{hashlib.sha256(f'{node} {token}'.encode()).hexdigest()[:16]}"


def mac(text: str) -> str:
    """Raises BadFence for what is no address of one interface."""
    found = text.strip().lower()
    if not _MAC.fullmatch(found) or int(found[:2], 16) & 1 or found == "00:00:00:00:00:00":
        raise BadFence(f"{text!r} is no MAC address of an interface")
    return found


def network(text: str) -> Network:
    """An address, or a network. Raises BadFence for what is others' too."""
    try:
        found = ip_network(text.strip())
    except ValueError:
        raise BadFence(f"{text!r} is no IP address or network") from None
    if found.is_loopback or found.is_multicast or found.is_unspecified or found.is_link_local:
        raise BadFence(f"{text} is not one machine's: every host has such an address")
    if isinstance(found, IPv4Network) and found.num_addresses > WORST:
        raise BadFence(f"{text} has {found.num_addresses} addresses; a fence is for one machine")
    if isinstance(found, IPv6Network) and found.prefixlen < 48:
        raise BadFence(f"{text} is too wide; a fence is for one machine")
    return found


def port(text: str) -> str:
    """A bridge's port. Raises BadFence."""
    found = text.strip()
    if not _PORT.fullmatch(found):
        raise BadFence(f"{text!r} is no name of an interface")
    return found


def way(text: str) -> Way | None:
    """`ADDRESS:PORT`, or `nothing`. Raises BadFence."""
    if text.strip() == "nothing":
        return None
    host, _, number = text.strip().rpartition(":")
    try:
        found = Way(ip_address(host.removeprefix("[").removesuffix("]")), int(number))
    except ValueError:
        raise BadFence(f"{text!r} is neither ADDRESS:PORT nor `nothing`") from None
    if not 0 < found.port < 65536:
        raise BadFence(f"{text!r} has no port from 1 to 65535")
    return found


def listed(text: str) -> list[str]:
    """The words of a parameter with commas."""
    return [each.strip() for each in text.split(",") if each.strip()]


@dataclass(frozen=True)
class Rule:
    """`does`: what it ends in, as nft lists it: `drop`, `accept`, or a chain that it goes to."""

    match: str
    does: str

    def text(self) -> str:
        verb = self.does if self.does in ("drop", "accept") else f"goto {self.does}"
        counter = "counter " if self.does == "drop" else ""
        match = f"{self.match} " if self.match else ""
        return f'{match}{counter}{verb} comment "{self.comment}"'

    @property
    def comment(self) -> str:
        """By it the rule is found again."""
        return self.match.replace('"', "") or "the rest"


@dataclass(frozen=True)
class Chain:
    """`hook` is "" for a chain that is only jumped to."""

    name: str
    hook: str
    rules: tuple[Rule, ...]


def chains(fence: Fence, family: str) -> list[Chain]:
    """All of one family's table."""
    made = _bridge(fence) if family == "bridge" else _inet(fence)
    return [
        *(Chain(end, "", (*_open(fence.way, family, end), Rule("", "drop"))) for end in ("from", "to")),
        *made,
    ]


def _bridge(fence: Fence) -> list[Chain]:
    sources = [Rule(f'iifname "{each}"', "from") for each in fence.ports]
    sources += [Rule(f"ether saddr {each}", "from") for each in fence.macs]
    sinks = [Rule(f"ether daddr {each}", "to") for each in fence.macs]
    for each in fence.networks:
        sources += [Rule(f"{_ip(each)} saddr {each}", "from")]
        sinks += [Rule(f"{_ip(each)} daddr {each}", "to")]
        if isinstance(each, IPv4Network):
            sources += [Rule(f"arp saddr ip {each}", "from")]
            sinks += [Rule(f"arp daddr ip {each}", "to")]
    to_port = [Rule(f'oifname "{each}"', "to") for each in fence.ports]
    return [
        Chain("prerouting", "prerouting", (*sources, *sinks)),
        Chain("postrouting", "postrouting", (*to_port, *sinks)),
    ]


def _inet(fence: Fence) -> list[Chain]:
    sources = [Rule(f"ether saddr {each}", "from") for each in fence.macs]
    sources += [Rule(f"{_ip(each)} saddr {each}", "from") for each in fence.networks]
    sinks = [Rule(f"{_ip(each)} daddr {each}", "to") for each in fence.networks]
    return [
        Chain("prerouting", "prerouting", (*sources, *sinks)),
        Chain("output", "output", tuple(sinks)),
    ]


def _open(way: Way | None, family: str, end: str) -> list[Rule]:
    if way is None:
        return []
    version = "ip" if isinstance(way.address, IPv4Address) else "ip6"
    address, number = ("daddr", "dport") if end == "from" else ("saddr", "sport")
    found = [Rule(f"{version} {address} {way.address} tcp {number} {way.port}", "accept")]
    if version == "ip6":
        found += [
            Rule(f"icmpv6 type {kind}", "accept") for kind in ("nd-neighbor-solicit", "nd-neighbor-advert")
        ]
    elif family == "bridge":
        found += [Rule(f"arp {address} ip {way.address}", "accept")]
    return found


def _ip(network: Network) -> str:
    return "ip" if isinstance(network, IPv4Network) else "ip6"


def ruleset(name: str, node: str, fence: Fence) -> str:
    """What makes exactly these tables, in one transaction, whatever there was of them."""
    found = ""
    for family in FAMILIES:
        found += f"add table {family} {name}\ndelete table {family} {name}\n"
        body = f'comment "{_plain(node)}"\n'
        for chain in chains(fence, family):
            hook = (
                f"type filter hook {chain.hook} priority {PRIORITY}; policy accept;\n" if chain.hook else ""
            )
            rules = "".join(f"{rule.text()}\n" for rule in chain.rules)
            body += f"chain {chain.name} {{\n{hook}{rules}}}\n"
        found += f"table {family} {name} {{\n{body}}}\n"
    return found


def removal(names: Sequence[tuple[str, str]]) -> str:
    """What takes these tables away, each by family and name."""
    return "".join(f"delete table {family} {name}\n" for family, name in names)


def _plain(node: str) -> str:
    return re.sub(r"[^a-zA-Z0-9.-]", "_", node)[:100]


# --- from the kernel


@dataclass(frozen=True)
class Found:
    """Of one family. `dropped`: packets, from the machine and to it."""

    complete: bool = False
    present: bool = False
    dropped: tuple[int, int] = (0, 0)


def found(listing: Any, family: str, name: str, fence: Fence) -> Found:
    """Whether what `nft -j list table` lists is the fence, whole: each chain at its hook, each rule in its
    place, none beside them, and the table not dormant."""
    entries = [
        each for each in _entries(listing) if each[1].get("family") == family and _table_of(*each) == name
    ]
    tables = [each for kind, each in entries if kind == "table"]
    if not tables:
        return Found()
    wanted = chains(fence, family)
    hooks = {
        each.get("name"): (
            each.get("hook", ""),
            each.get("prio") if each.get("hook") else None,
            each.get("type"),
        )
        for kind, each in entries
        if kind == "chain"
    }
    rules: dict[str, list[tuple[str, str]]] = {}
    dropped = {"from": 0, "to": 0}
    for kind, each in entries:
        if kind == "rule":
            chain, does, packets = str(each.get("chain")), *_does(each.get("expr"))
            rules.setdefault(chain, []).append((str(each.get("comment")), does))
            if does == "drop" and chain in dropped:
                dropped[chain] += packets
    complete = (
        "flags" not in tables[0]
        and hooks
        == {each.name: (each.hook, PRIORITY, "filter") if each.hook else ("", None, None) for each in wanted}
        and rules
        == {each.name: [(rule.comment, rule.does) for rule in each.rules] for each in wanted if each.rules}
    )
    return Found(complete, True, (dropped["from"], dropped["to"]))


def _entries(listing: Any) -> list[tuple[str, dict[str, Any]]]:
    every: Any = cast("dict[str, Any]", listing).get("nftables") if isinstance(listing, dict) else None
    pairs: list[tuple[str, dict[str, Any]]] = []
    for entry in cast("list[Any]", every) if isinstance(every, list) else []:
        for kind, each in (cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}).items():
            if isinstance(each, dict):
                pairs.append((kind, cast("dict[str, Any]", each)))
    return pairs


def _table_of(kind: str, entry: dict[str, Any]) -> Any:
    return entry.get("name" if kind == "table" else "table")


def _does(expressions: Any) -> tuple[str, int]:
    """What the rule ends in, and its counter."""
    does, packets = "", 0
    for each in cast("list[Any]", expressions) if isinstance(expressions, list) else []:
        if not isinstance(each, dict):
            continue
        words = cast("dict[str, Any]", each)
        counter: Any = words.get("counter")
        if isinstance(counter, dict):
            count: Any = cast("dict[str, Any]", counter).get("packets")
            packets = count if isinstance(count, int) else 0
        for verb in ("drop", "accept"):
            does = verb if verb in words else does
        goto: Any = words.get("goto")
        if isinstance(goto, dict):
            does = str(cast("dict[str, Any]", goto).get("target"))
    return does, packets


def strangers(neighbours: Any, fence: Fence) -> list[str]:
    """Addresses of the fence that another machine has now, by what `ip -j neighbour` lists: those of a
    network are passed over, as pods have MAC addresses of their own."""
    alone = {str(each.network_address) for each in fence.networks if each.num_addresses == 1}
    found: list[str] = []
    for each in cast("list[Any]", neighbours) if isinstance(neighbours, list) else []:
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        address, link, states = entry.get("dst"), entry.get("lladdr"), entry.get("state")
        gone = isinstance(states, list) and ("FAILED" in states or "INCOMPLETE" in states)
        if fence.macs and address in alone and isinstance(link, str) and not gone and link not in fence.macs:
            found.append(f"{address} is at {link}")
    return found


def elsewhere(forwarding: Any, fence: Fence) -> list[str]:
    """MAC addresses of the fence that a bridge sees at another port, by what `bridge -j fdb` lists."""
    found: list[str] = []
    for each in cast("list[Any]", forwarding) if isinstance(forwarding, list) else []:
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        link, device = entry.get("mac"), entry.get("ifname")
        if fence.ports and entry.get("master") and link in fence.macs and device not in fence.ports:
            found.append(f"{link} is at {device}")
    return found


def own(addresses: Any, fence: Fence) -> list[str]:
    """Addresses and MAC addresses of the fence that are this host's own, by what `ip -j address` lists."""
    found: list[str] = []
    for each in cast("list[Any]", addresses) if isinstance(addresses, list) else []:
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        infos: Any = entry.get("addr_info")
        for info in cast("list[Any]", infos) if isinstance(infos, list) else []:
            local: Any = cast("dict[str, Any]", info).get("local") if isinstance(info, dict) else None
            if isinstance(local, str) and any(ip_address(local) in one for one in fence.networks):
                found.append(local)
        if entry.get("address") in fence.macs:
            found.append(str(entry.get("address")))
    return found
