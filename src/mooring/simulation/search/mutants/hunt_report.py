"""What a hunt found, as lines of text, and summed up."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from mooring.simulation.search.mutants import WAITING
from mooring.simulation.search.mutants.hunt import Verdict


def line(verdict: Verdict) -> str:
    """One mutant: killed or not, by what, in how many seeds."""
    if not verdict.killed:
        how = f"NOT KILLED in {verdict.most} seeds"
    else:
        seeds = f"{verdict.median:g} seeds" + (
            f", worst {max(verdict.seeds)}" if len(verdict.seeds) > 1 else ""
        )
        how = f"killed by {', '.join(verdict.invariants)} in {seeds}"
        how += f" ({_at_the_end(verdict)})" if verdict.by_deadline_only else ""
    return f"{verdict.name:5} {how}: {verdict.fault}"


def _at_the_end(verdict: Verdict) -> str:
    return (
        f"at the end{' and for good' if verdict.for_good else ' only'}: {verdict.omits or 'nothing says why'}"
    )


def summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """How many were killed, and by what kind of invariant."""
    killed = [each for each in verdicts if each.killed]
    late = [each for each in killed if each.by_deadline_only]
    needed = [seeds for each in killed for seeds in each.seeds]
    seeds = (
        f"; seeds to the kill: median {statistics.median(needed):g}, worst {max(needed)}" if needed else ""
    )
    yield f"{len(killed)} of {len(verdicts)} mutants killed, {len(late)} of them only by a deadline{seeds}"


def guarded(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """How often what each checker looks at came to pass; never is a hole in the plans."""
    sums: dict[str, int] = {}
    for each in verdicts:
        for name, number in each.guarded.items():
            sums[name] = sums.get(name, 0) + number
    if sums:
        yield "conditions that checkers look at, and how often they were met:"
        yield "  " + ", ".join(f"{name} {number}" for name, number in sorted(sums.items()))


def waiting() -> Iterator[str]:
    """Bugs that are not put back in."""
    for name, part in WAITING.items():
        yield f"{name:5} waiting: {part}"
