"""Hunts mutants: plays seeds with the bug in until an invariant is violated, several times over."""

from __future__ import annotations

import statistics
from collections import Counter

import msgspec

from mooring.simulation.mutants import MUTANTS
from mooring.simulation.mutants.mutant import Mutant
from mooring.simulation.run import play

ROUNDS_APART = 1_000
"""Each round begins at another thousand of seeds."""


class Verdict(msgspec.Struct):
    """How a mutant fared. `seeds`: how many each round needed, 0 for a round that did not find it. `invariants`: what
    was violated in the seeds that found it. `as_foretold`: one of its killers was among them in every round.
    `guarded`: how often what each checker looks at came to pass in all seeds played."""

    name: str
    fault: str
    killers: list[str]
    invariants: list[str]
    seeds: list[int]
    most: int
    as_foretold: bool
    guarded: dict[str, int]

    @property
    def killed(self) -> bool:
        """In every round."""
        return all(self.seeds)

    @property
    def by_deadline_only(self) -> bool:
        """Only what is checked at the end found it: a longer bound would hide it."""
        return self.killed and all(each.startswith("L") for each in self.invariants)

    @property
    def median(self) -> float:
        """Seeds to the kill."""
        return statistics.median(self.seeds)


def hunt(name: str, *, first: int = 0, most: int = 20, rounds: int = 1) -> Verdict:
    """Plays up to `most` seeds in each round."""
    mutant, guarded = MUTANTS[name], Counter[str]()
    found = [_round(mutant, first + number * ROUNDS_APART, most, guarded) for number in range(rounds)]
    return Verdict(
        name=name,
        fault=mutant.fault,
        killers=list(mutant.killers),
        invariants=sorted({each for _, invariants in found for each in invariants}),
        seeds=[seeds for seeds, _ in found],
        most=most,
        as_foretold=all(set(mutant.killers) & set(invariants) for seeds, invariants in found if seeds),
        guarded=dict(guarded),
    )


def _round(mutant: Mutant, first: int, most: int, guarded: Counter[str]) -> tuple[int, list[str]]:
    for number, seed in enumerate(range(first, first + most), 1):
        with mutant.applied():
            outcome = play(seed, mutant.ground)
        guarded.update(outcome.guarded)
        if not outcome.ok:
            return number, outcome.invariants
    return 0, []
