"""Which mechanisms are installed: entry points of the group `mooring.fence_mechanisms`.

Each entry point is a callable without arguments that returns a `Mechanism`. One that cannot be loaded is
reported by name, and the others are there all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points

from mooring.fence.interface import Mechanism

GROUP = "mooring.fence_mechanisms"


@dataclass(frozen=True)
class Mechanisms:
    """`broken`: names of entry points that could not be loaded, with the reason."""

    by_kind: Mapping[str, Mechanism] = field(default_factory=dict[str, Mechanism])
    broken: Mapping[str, str] = field(default_factory=dict[str, str])


def load(entries: Iterable[EntryPoint] | None = None) -> Mechanisms:
    """All that are installed, by their kind."""
    found: dict[str, Mechanism] = {}
    broken: dict[str, str] = {}
    for entry in entry_points(group=GROUP) if entries is None else entries:
        try:
            mechanism: Mechanism = entry.load()()
        except Exception as error:  # whatever another's package raises: one of them does not take all away
            broken[entry.name] = f"{type(error).__name__}: {error}"
            continue
        if mechanism.kind != entry.name:
            broken[entry.name] = f"it calls itself {mechanism.kind!r}"
        else:
            found[entry.name] = mechanism
    return Mechanisms(found, broken)
