"""What clients of a table did and saw: rows that were inserted, each with a number of its own, and reads of
all of them. Pure.

Promised: a row whose insert was acknowledged is in every read that began after that, for ever; a row that no
client has sent is in none; a row that one read has shown is in every read that began after that one ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.machines.stateful.history import NEVER

PAGE = 500
"""Rows are read by pages of so many numbers: a read of all of them would be too long after an hour."""


@dataclass(frozen=True)
class Insert:
    """`acknowledged`: when; NEVER if that is not known."""

    row: int
    sent: float
    acknowledged: float = NEVER


@dataclass(frozen=True)
class Read:
    """Of one page: the rows from `page * PAGE` to the next."""

    page: int
    began: float
    ended: float
    rows: frozenset[int]
    where: str = "the primary"


def violations(inserts: Iterable[Insert], reads: Iterable[Read]) -> list[str]:
    """Returns a sentence for each read that breaks the promise."""
    of_page: dict[int, tuple[list[Insert], list[Read]]] = defaultdict(lambda: ([], []))
    for insert in inserts:
        of_page[insert.row // PAGE][0].append(insert)
    for read in reads:
        of_page[read.page][1].append(read)
    return [line for page in sorted(of_page) for line in _of_page(*of_page[page])]


def _of_page(inserts: Sequence[Insert], reads: Sequence[Read]) -> list[str]:
    sent = {each.row: each.sent for each in inserts}
    promised = sorted(
        [(each.acknowledged, each.row) for each in inserts if each.acknowledged != NEVER]
        + [(read.ended, row) for read in reads for row in read.rows]
    )
    found: list[str] = []
    due: set[int] = set()
    position = 0
    for read in sorted(reads, key=lambda read: read.began):
        while position < len(promised) and promised[position][0] < read.began:
            due.add(promised[position][1])
            position += 1
        found += _broken(read, due, sent)
    return found


def _broken(read: Read, due: set[int], sent: dict[int, float]) -> list[str]:
    found: list[str] = []
    if lost := due - read.rows:
        found.append(
            f"the read of {read.where} at {read.began:.3f} s lacks {len(lost)} rows that were acknowledged or read "
            f"before: {_some(lost)}"
        )
    if strange := {row for row in read.rows if sent.get(row, NEVER) > read.ended}:
        found.append(
            f"the read of {read.where} at {read.began:.3f} s has {len(strange)} rows that were never sent: "
            f"{_some(strange)}"
        )
    return found


def _some(rows: set[int]) -> str:
    shown = ", ".join(map(str, sorted(rows)[:5]))
    return shown + (", ..." if len(rows) > 5 else "")
