"""Small runs that a known bug spoils: each is violated with its mutant, and not without."""

from __future__ import annotations

import msgspec

from mooring.simulation.run import play
from mooring.simulation.search.mutants import MUTANTS
from mooring.simulation.search.shrink import shrink
from mooring.simulation.search.stored_run import StoredRun, stored


def regression(name: str, *, first: int = 0, most: int = 20) -> StoredRun | None:
    """The smallest run found in which the mutant violates one of the invariants that are to find it; None if
    none of the seeds does, or if what is left of it is violated without the mutant, too."""
    mutant = MUTANTS[name]
    with mutant.applied():
        found = next((run for seed in range(first, first + most) if (run := _killed(name, seed))), None)
        small = shrink(found) if found is not None else None
    return small if small is not None and small.play().ok else None


def _killed(name: str, seed: int) -> StoredRun | None:
    mutant = MUTANTS[name]
    outcome = play(seed, mutant.scenario)
    killing = [each for each in outcome.violations if each.partition(" ")[0] in mutant.killers]
    if not killing:
        return None
    run = stored(outcome)
    return msgspec.structs.replace(run, mutant=name, violations=killing)
