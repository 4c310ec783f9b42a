"""The coverage table of a campaign: each fault on each part, and what each invariant then had to look at.

Which rows there should be follows from the data that plans and swarms are drawn from, so a new kind of fault
is missed here until it has come up. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.checks.caches import CachesAreTrue
from mooring.simulation.checks.coverage import Cells
from mooring.simulation.checks.invariants import CHECKERS
from mooring.simulation.checks.recomputed import Recomputed
from mooring.simulation.checks.stored import StoreHoldsItsLog
from mooring.simulation.cluster.plan import ACTIONS, EC2_FAULTS, FAULTS, PROCESSES
from mooring.simulation.cluster.swarm import WAYS

ALWAYS = frozenset({"P1", "P2", "P3"})
"""Looked at all the time."""
INVARIANTS = (
    *dict.fromkeys(each.name for each in CHECKERS if each.name not in ALWAYS),
    Recomputed.name,
    CachesAreTrue.name,
    StoreHoldsItsLog.name,
)
STRUCK = {"part": ("node", *PROCESSES, "ebs"), "process": PROCESSES, "set": ("workload",)}
"""What is struck by a fault, or an action, on one of these."""


def rows() -> list[str]:
    """Everything that should come up."""
    kinds = FAULTS | EC2_FAULTS | ACTIONS
    ways = dict.fromkeys(f"driver {driver}/{storage}" for driver, storage in WAYS)
    return [*ways, *(f"{kind} {part}" for kind, on in kinds.items() for part in STRUCK.get(on, (on,)))]


def empty(cells: Cells) -> list[str]:
    """The cells in which nothing was looked at, each as row and invariant."""
    return [f"{row}: {name}" for row in rows() for name in INVARIANTS if not cells.get(row, {}).get(name, 0)]


def table(cells: Cells) -> Iterator[str]:
    """The table, as lines: how often, to two digits (`1.2k`); `-` where nothing was looked at."""
    width = max(map(len, rows()))
    yield " ".join([" " * width, *(f"{name:>5}" for name in INVARIANTS)])
    for row in rows():
        numbers = (cells.get(row, {}).get(name, 0) for name in INVARIANTS)
        yield " ".join([f"{row:<{width}}", *(f"{_short(number):>5}" for number in numbers)])


def _short(number: int) -> str:
    """At most five characters."""
    if number < 10_000:
        return str(number) if number else "-"
    return f"{number // 1000}k" if number < 10_000_000 else f"{number // 1_000_000}M"
