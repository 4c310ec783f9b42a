"""Which peers are asked about a node. Pure.

At most five, of as many zones as there are, by rendezvous hashing: each pair of nodes, and each pair of node
and zone, has a rank that depends on their names alone. So a node more or less moves at most one peer of each
node, and about one node has no more say than about another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import zip_longest

from mooring.volumes.peers import MOST_PEERS


def voters_of(target: str, zones: Mapping[str, str]) -> tuple[str, ...]:
    """The peers of `target`, the first ones first. `zones`: of the nodes that can be asked, by name; "" is a
    zone, too."""
    by_zone: dict[str, list[str]] = {}
    for name in _ranked(target, (each for each in zones if each != target)):
        by_zone.setdefault(zones[name], []).append(name)
    order = (by_zone[zone] for zone in _ranked(f"zones of {target}", by_zone))
    rounds = zip_longest(*order)
    found = (name for each in rounds for name in each if name is not None)
    return tuple(found)[:MOST_PEERS]


def _ranked(target: str, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(f"{target}\0{name}".encode()).digest())
