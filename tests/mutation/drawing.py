"""Which mutants are drawn: the same for the same seed and the same sources."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from random import Random

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.rooms import ROOT


def drawn(seed: str, count: int, rooms: Sequence[str]) -> list[Mutant]:
    """So many mutants, evenly from all rooms: a small one, such as the store, carries no less than a large
    one. No two begin on the same line. Fewer where the rooms have not so many lines to change."""
    left = {room: _in_drawn_order(seed, room) for room in rooms}
    found: list[Mutant] = []
    while len(found) < count and any(left.values()):
        for room in rooms:
            if left[room] and len(found) < count:
                found.append(left[room].pop())
    return sorted(found, key=lambda mutant: (rooms.index(mutant.room), mutant.path, mutant.line))


def _in_drawn_order(seed: str, room: str) -> list[Mutant]:
    """For each line with a place one of its mutants, in an order that the seed says."""
    random = Random(f"{seed} {room}")
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in mutants_of(room):
        lines.setdefault((mutant.file, mutant.line), []).append(mutant)
    one_each = [random.choice(found) for found in lines.values()]
    random.shuffle(one_each)
    return one_each


def head() -> str:
    """The hash of the commit that is measured: the seed where none is given."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()
