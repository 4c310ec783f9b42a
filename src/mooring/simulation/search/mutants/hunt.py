"""Hunts mutants: plays seeds with the bug in until one of its killers is violated, several times over.

Of a mutant that only omits something, what was complained about at the end must be so for good: in a run that
is three times as long it is, too.
"""

from __future__ import annotations

import statistics
from collections import Counter

import msgspec

from mooring.simulation.run import Outcome, play
from mooring.simulation.search.mutants import MUTANTS
from mooring.simulation.search.mutants.mutant import Mutant

ROUNDS_APART = 1_000
"""Each round begins at another thousand of seeds."""


class Verdict(msgspec.Struct):
    """How a mutant fared. `seeds`: how many each round needed, 0 for a round that did not find it.
    `invariants`: what was violated in the seeds that found it. `for_good`: what it omits was not merely late.
    `guarded`: how often what each checker looks at came to pass in all seeds played."""

    name: str
    fault: str
    killers: list[str]
    invariants: list[str]
    seeds: list[int]
    most: int
    omits: str
    for_good: bool
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
    killed = [outcome for outcome in found if outcome is not None]
    return Verdict(
        name=name,
        fault=mutant.fault,
        killers=list(mutant.killers),
        invariants=sorted({each for outcome in killed for each in outcome.invariants}),
        seeds=[
            outcome.seed - first - number * ROUNDS_APART + 1 if outcome else 0
            for number, outcome in enumerate(found)
        ],
        most=most,
        omits=mutant.omits,
        for_good=bool(mutant.omits) and all(_for_good(mutant, outcome) for outcome in killed),
        guarded=dict(guarded),
    )


def _round(mutant: Mutant, first: int, most: int, guarded: Counter[str]) -> Outcome | None:
    """The first run in which one of the mutant's killers is violated."""
    for seed in range(first, first + most):
        with mutant.applied():
            outcome = play(seed, mutant.scenario)
        guarded.update(outcome.guarded)
        if not set(mutant.killers).isdisjoint(outcome.invariants):
            return outcome
    return None


def _for_good(mutant: Mutant, outcome: Outcome) -> bool:
    """Whether it is still so when the run takes three times as long."""
    longer = msgspec.structs.replace(mutant.scenario, minutes=3 * mutant.scenario.minutes)
    with mutant.applied():
        later = play(outcome.seed, longer, plan=outcome.plan)
    return not set(mutant.killers).isdisjoint(later.invariants)
