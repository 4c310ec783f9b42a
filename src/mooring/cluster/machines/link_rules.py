"""The nftables rules of cuts and loss: from what is wrong with a machine's links to the text of a table, and
back from the kernel's listing. Pure.

A rule that drops says in its comment for which cut it stands, `cut api out` or `loss 0.1`; so the rules
themselves are the record. In each table traffic meets the chains `out` (the machine sends) and `in`.

Two kinds of machines are told apart. All that a machine with a kernel of its own says goes through its tap. A
machine of namespaces has the host's network: its agent is known by the cgroup of its sockets, its pods by
their links on the bridge, which are named after their addresses. On the loopback interface a packet of the
machine bears a mark, so that what it says to itself is let through.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, cast

from mooring.cluster.machines.interface import Cut, Direction, Far, Quality
from mooring.node.bridge import BRIDGE, PART, host_address

PREFIX = "mooring-"
_BEFORE = -250
"""Before bridge-netfilter (0) and the usual chains of a firewall."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
_SHARES = 1_000_000
"""Loss is drawn in millionths."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a machine's links, as far as rules can make it so."""

    cuts: frozenset[Cut] = frozenset()
    """With the direction IN or OUT."""
    loss: float = 0

    def __bool__(self) -> bool:
        return bool(self.cuts or self.loss)


@dataclass(frozen=True)
class Ends:
    """The other ends of a machine's traffic."""

    addresses: IPv4Network
    """Of all pods and machines; the host has the first part of them."""
    api_port: int
    storage: Sequence[IPv4Address] = ()


@dataclass(frozen=True)
class Tap:
    """A machine with a kernel of its own."""

    name: str


@dataclass(frozen=True)
class Group:
    """A machine of namespaces. `path` is its cgroup as nft names it, `level` its depth; `pods` its part of
    the addresses, if it has one; `endpoints` the ports at which it listens at 127.0.0.1 alone, as its agent
    does; `ports` all at which it listens."""

    path: str
    level: int
    pods: IPv4Network | None = None
    endpoints: Sequence[int] = field(default_factory=tuple[int, ...])
    ports: Sequence[int] = field(default_factory=tuple[int, ...])


def prefix(data_dir: Path) -> str:
    """What the names of a cluster's tables begin with."""
    return f"{PREFIX}{hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]}-"


def table(data_dir: Path, machine: str) -> str:
    """The name of a machine's tables. Raises ValueError for a name that no node can have."""
    if not _NAME.fullmatch(machine):
        raise ValueError(f"{machine!r} is no name of a node")
    return prefix(data_dir) + machine


def with_cut(trouble: Trouble, cut: Cut) -> Trouble:
    """One cut more."""
    directions = (Direction.IN, Direction.OUT) if cut.direction is Direction.BOTH else (cut.direction,)
    return Trouble(trouble.cuts | {Cut(cut.far, each) for each in directions}, trouble.loss)


def with_loss(trouble: Trouble, quality: Quality) -> Trouble:
    """That loss in the place of the one before."""
    return Trouble(trouble.cuts, quality.loss)


# --- to the kernel


def ruleset(name: str, machine: Tap | Group, ends: Ends, trouble: Trouble) -> str:
    """What `nft -f` takes: in one transaction, in the place of the machine's tables."""
    texts = [removal(name)]
    if trouble:
        texts.append(_of_tap(name, machine, ends, trouble) if isinstance(machine, Tap) else "")
        texts.append(_of_group(name, machine, ends, trouble) if isinstance(machine, Group) else "")
    return "".join(texts)


def removal(name: str) -> str:
    """Takes the machine's tables away, whether they are there or not."""
    return "".join(
        f"table {family} {name} {{}}\ndelete table {family} {name}\n" for family in ("bridge", "inet")
    )


def _of_tap(name: str, tap: Tap, ends: Ends, trouble: Trouble) -> str:
    return _table(
        "bridge",
        name,
        ends,
        _chain("prerouting", f'iifname "{tap.name}" jump out'),
        _chain("postrouting", f'oifname "{tap.name}" jump in'),
        _wires(ends, trouble),
    )


def _of_group(name: str, group: Group, ends: Ends, trouble: Trouble) -> str:
    own = f'socket cgroupv2 level {group.level} "{group.path}"'
    mark = f"0x6d{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    # Of a connection that is being made the kernel has no socket yet whose cgroup nft could tell.
    ports = f"{{ {', '.join(map(str, group.ports))} }}"
    senders, receivers = [own], [own]
    if group.ports:
        senders.append(f"tcp sport {ports} tcp flags & (syn | ack) == (syn | ack)")
        receivers.append(f"tcp dport {ports}")
    bridge, to_pods, from_pods = "", "", ""
    if group.pods is not None:
        to_pods = f'{own} accept\noifname "{BRIDGE}" ip daddr {group.pods} jump pods_in'
        from_pods = f'iifname "{BRIDGE}" ip saddr {group.pods} jump pods_out'
        links = f'"mor{int(group.pods.network_address) >> 8:06x}*"'
        inside = f"iifname {links} oifname {links} accept"
        crossing = f"iifname {links} jump out\noifname {links} jump in"
        bridge = _table(
            "bridge", name, ends, _chain("forward", inside, crossing), _wires(ends, trouble, group.pods)
        )
    inet = _table(
        "inet",
        name,
        ends,
        _chain(
            "output",
            *(f'oifname "lo" {sender} meta mark set {mark}' for sender in senders),
            *(f'oifname != "lo" {sender} jump out' for sender in senders),
            to_pods,
        ),
        _chain(
            "input",
            *(f'iifname "lo" meta mark {mark} {receiver} accept' for receiver in receivers),
            f'iifname "lo" meta mark {mark} jump out',
            f"{own} jump in",
            f"{own} accept",
            from_pods,
        ),
        _sockets(group, ends, trouble),
        _host_and_pods(group, ends, trouble) if group.pods is not None else "",
    )
    return bridge + inet


def _wires(ends: Ends, trouble: Trouble, inside: IPv4Network | None = None) -> str:
    """The chains for frames: the other end is known by its address."""
    host, peers = host_address(ends.addresses), _peers(ends, inside)

    def far(end: str, at: Far) -> list[str]:
        match at:
            case Far.ALL:
                return [""]
            case Far.API:
                return [f"ip {end} {host}"]
            case Far.PEERS:
                return [peers.replace("@end", end), "ether type ip6"]
            case Far.STORAGE:
                return [f"ip {end} @storage"]

    return _direction("out", trouble, lambda at: far("daddr", at)) + _direction(
        "in", trouble, lambda at: far("saddr", at)
    )


def _sockets(group: Group, ends: Ends, trouble: Trouble) -> str:
    """The chains for what the machine's own sockets send and get. The API server is known by its port, and
    what it asks of the agent by the agent's."""
    host, peers = host_address(ends.addresses), _peers(ends, group.pods)
    served = f"{{ {', '.join(map(str, group.endpoints))} }}"

    def far(end: str, theirs: str, ours: str, at: Far) -> list[str]:
        match at:
            case Far.ALL:
                return [""]
            case Far.API:
                server = f"ip {end} {{ 127.0.0.1, {host} }} tcp {theirs} {ends.api_port}"
                return [server, *([f"ip {end} 127.0.0.1 tcp {ours} {served}"] if group.endpoints else [])]
            case Far.PEERS:
                return [peers.replace("@end", end)]
            case Far.STORAGE:
                return [f"ip {end} @storage"]

    within = (f"ip daddr {group.pods} accept", f"ip saddr {group.pods} accept") if group.pods else ("", "")
    return _direction("out", trouble, lambda at: far("daddr", "dport", "sport", at), within[0]) + _direction(
        "in", trouble, lambda at: far("saddr", "sport", "dport", at), within[1]
    )


def _host_and_pods(group: Group, ends: Ends, trouble: Trouble) -> str:
    """The chains for what this host and the machine's pods say to one another; what the machine's own agent
    says is accepted before."""
    host = host_address(ends.addresses)
    mates = f'socket cgroupv2 level {group.level - 1} "{group.path.rpartition("/")[0]}"'

    def to_host(at: Far) -> list[str]:
        match at:
            case Far.ALL:
                return [""]
            case Far.API:
                return [f"ip daddr {host} tcp dport {ends.api_port}"]
            case Far.PEERS:
                return [_peers(ends, group.pods).replace("@end", "daddr")]
            case Far.STORAGE:
                return ["ip daddr @storage"]

    def from_host(at: Far) -> list[str]:
        match at:
            case Far.ALL:
                return [""]
            case Far.API:
                return [f"ip saddr {host} tcp sport {ends.api_port}"]
            case Far.PEERS:
                return [mates]
            case Far.STORAGE:
                return ["ip saddr @storage"]

    return _direction("pods_out", trouble, to_host) + _direction("pods_in", trouble, from_host)


def _peers(ends: Ends, inside: IPv4Network | None) -> str:
    """Other nodes and their pods: all addresses without the host's part, the machine's own, and storage."""
    host_part = IPv4Network((ends.addresses.network_address, PART))
    own = f" ip @end != {inside}" if inside is not None else ""
    return f"ip @end {ends.addresses} ip @end != {host_part}{own} ip @end != @storage"


def _direction(chain: str, trouble: Trouble, far: Callable[[Far], list[str]], first: str = "") -> str:
    way = Direction.IN if chain.endswith("in") else Direction.OUT
    rules = [first] if first else []
    for at in Far:
        if Cut(at, way) in trouble.cuts:
            rules += [f'{match} drop comment "cut {at} {way}"' for match in far(at)]
    if trouble.loss:
        share = max(1, round(trouble.loss * _SHARES))
        drawn = f"numgen random mod {_SHARES} < {share} " if share < _SHARES else ""
        rules.append(f'{drawn}drop comment "loss {share / _SHARES:.6f}"')
    return _block(f"chain {chain}", rules)


def _table(family: str, name: str, ends: Ends, *blocks: str) -> str:
    elements = [f"elements = {{ {', '.join(map(str, ends.storage))} }}"] if ends.storage else []
    storage = _block("set storage", ["type ipv4_addr", *elements])
    # Chains that are jumped to are named before those that jump.
    return _block(f"table {family} {name}", [storage, *reversed(blocks)])


def _chain(hook: str, *rules: str) -> str:
    return _block(f"chain {hook}", [f"type filter hook {hook} priority {_BEFORE}; policy accept;", *rules])


def _block(head: str, lines: Iterable[str]) -> str:
    return f"{head} {{\n" + "".join(f"{line}\n" for line in lines if line) + "}\n"


# --- from the kernel


def trouble_of(listing: Any) -> Trouble:
    """What is wrong, from what `nft -j list table` says; rules of others are passed over."""
    cuts: set[Cut] = set()
    loss = 0.0
    for comment in _comments(listing):
        words = comment.split()
        try:
            match words:
                case ["cut", far, direction]:
                    cuts.add(Cut(Far(far), Direction(direction)))
                case ["loss", share]:
                    loss = float(share)
                case _:
                    continue
        except ValueError:
            continue
    return Trouble(frozenset(cuts), loss if 0 < loss <= 1 else 0)


def _comments(listing: Any) -> list[str]:
    entries: Any = cast("dict[str, Any]", listing).get("nftables") if isinstance(listing, dict) else None
    found: list[str] = []
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        rule: Any = cast("dict[str, Any]", entry).get("rule") if isinstance(entry, dict) else None
        comment: Any = cast("dict[str, Any]", rule).get("comment") if isinstance(rule, dict) else None
        if isinstance(comment, str):
            found.append(comment)
    return found


def tables_of(listing: Any, data_dir: Path) -> list[tuple[str, str]]:
    """Family and name of the cluster's tables, from what `nft -j list tables` says."""
    entries: Any = cast("dict[str, Any]", listing).get("nftables") if isinstance(listing, dict) else None
    found: list[tuple[str, str]] = []
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        each: Any = cast("dict[str, Any]", entry).get("table") if isinstance(entry, dict) else None
        if isinstance(each, dict):
            words = cast("dict[str, Any]", each)
            family, name = words.get("family"), words.get("name")
            if isinstance(family, str) and isinstance(name, str) and name.startswith(prefix(data_dir)):
                found.append((family, name))
    return found


_FAR = {
    Far.ALL: "everything",
    Far.API: "the API server",
    Far.PEERS: "its peers",
    Far.STORAGE: "storage",
}


def words(trouble: Trouble, delay: float | None = 0) -> list[str]:
    """For a person: `cut from the API server (out)`. `delay` in seconds; None if it is not known."""
    found: list[str] = []
    for far in Far:
        ways = [way for way in (Direction.IN, Direction.OUT) if Cut(far, way) in trouble.cuts]
        if ways:
            found.append(f"cut from {_FAR[far]}" + ("" if len(ways) == 2 else f" ({ways[0]})"))
    if trouble.loss:
        found.append(f"loses {trouble.loss:.4%}".rstrip("%").rstrip("0").rstrip(".") + "% of its packets")
    if delay is None:
        found.append("perhaps delayed: it does not answer")
    elif delay:
        found.append(f"delayed by {round(delay * 1000)} ms")
    return found
