"""The coverage table of a campaign: each fault on each part, and what each invariant then had to look at.

Which rows there should be follows from the data that plans and swarms are drawn from, so a new kind of fault
is missed here until it has come up. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.checks.caches import CachesAreTrue
from mooring.simulation.checks.coverage import Cells
from mooring.simulation.checks.invariants import CHECKERS
from mooring.simulation.checks.node_memory import NodeMemory
from mooring.simulation.checks.recomputed import Recomputed
from mooring.simulation.checks.stored import StoreHoldsItsLog
from mooring.simulation.cluster.plan import (
    ACTIONS,
    EC2_FAULTS,
    FAULTS,
    FENCE_ACTIONS,
    PROCESSES,
    WITH_FENCES,
)
from mooring.simulation.cluster.swarm import WAYS

ALWAYS = frozenset({"P1", "P2", "P3"})
"""Looked at all the time."""
INVARIANTS = (
    *dict.fromkeys(each.name for each in CHECKERS if each.name not in ALWAYS),
    Recomputed.name,
    CachesAreTrue.name,
    StoreHoldsItsLog.name,
    NodeMemory.name,
)
OF_FENCES = frozenset({"S17", "S17'", "S18", "S18'"})
"""They have something to look at only where there is a FencePolicy."""
STRUCK = {"part": ("node", *PROCESSES, "ebs"), "process": PROCESSES, "set": ("workload",)}
"""What is struck by a fault, or an action, on one of these."""


def columns(*, fencing: bool = True) -> list[str]:
    """Every invariant that should have something to look at."""
    return [name for name in INVARIANTS if fencing or name not in OF_FENCES]


def rows(*, fencing: bool = True) -> list[str]:
    """Everything that should come up; with `fencing` what there is only where there is a FencePolicy, too."""
    apart = () if fencing else (*WITH_FENCES, *FENCE_ACTIONS)
    kinds = {kind: on for kind, on in (FAULTS | EC2_FAULTS | ACTIONS).items() if kind not in apart}
    ways = dict.fromkeys(f"driver {driver}/{storage}" for driver, storage in WAYS)
    return [*ways, *(f"{kind} {part}" for kind, on in kinds.items() for part in STRUCK.get(on, (on,)))]


def has_fencing(cells: Cells) -> bool:
    """Whether any of these runs had a FencePolicy."""
    return any(row.partition(" ")[0] in WITH_FENCES for row in cells)


def empty(cells: Cells) -> list[str]:
    """The cells in which nothing was looked at, each as row and invariant."""
    fencing = has_fencing(cells)
    return [
        f"{row}: {name}"
        for row in rows(fencing=fencing)
        for name in columns(fencing=fencing)
        if not cells.get(row, {}).get(name, 0)
    ]


def size(cells: Cells) -> int:
    """How many cells the table of these runs has."""
    fencing = has_fencing(cells)
    return len(rows(fencing=fencing)) * len(columns(fencing=fencing))


def table(cells: Cells) -> Iterator[str]:
    """The table, as lines: how often, to two digits (`1.2k`); `-` where nothing was looked at. Without what
    only a FencePolicy brings, where no run had one."""
    names, lines = columns(fencing=has_fencing(cells)), rows(fencing=has_fencing(cells))
    width = max(map(len, lines))
    yield " ".join([" " * width, *(f"{name:>5}" for name in names)])
    for row in lines:
        numbers = (cells.get(row, {}).get(name, 0) for name in names)
        yield " ".join([f"{row:<{width}}", *(f"{_short(number):>5}" for number in numbers)])


def _short(number: int) -> str:
    """At most five characters."""
    if number < 10_000:
        return str(number) if number else "-"
    return f"{number // 1000}k" if number < 10_000_000 else f"{number // 1_000_000}M"
