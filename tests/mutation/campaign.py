"""Judges mutants, several at a time, and keeps each verdict as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tests.mutation import forks
from tests.mutation.by_simulator import BySimulator, by_simulator
from tests.mutation.by_tests import ByTests, by_tests
from tests.mutation.equivalents import equivalents, proof_of
from tests.mutation.execution import Executed
from tests.mutation.measuring import Tests
from tests.mutation.mutants import Mutant


class Verdict(msgspec.Struct):
    """What came of a mutant. `executed`: in how many of the seeds. `simulator` is None where it was not
    asked, or where no seed executes the mutant, `tests` where they were not asked. `proof`: why it is
    equivalent."""

    name: str
    room: str
    operator: str
    diff: str
    executed: int | None = None
    simulator: BySimulator | None = None
    tests: ByTests | None = None
    proof: str = ""

    @property
    def by_simulator(self) -> bool:
        return self.simulator is not None and self.simulator.killed

    @property
    def by_tests(self) -> bool:
        return self.tests is not None and self.tests.killed

    @property
    def killed(self) -> bool:
        return self.by_simulator or self.by_tests

    @property
    def equivalent(self) -> bool:
        """A mutant that is found is not, whatever was proven."""
        return bool(self.proof) and not self.killed

    @property
    def played(self) -> bool:
        """Whether a seed executes it."""
        return self.executed is not None and self.executed > 0


@dataclass(frozen=True)
class Case:
    """A mutant, what is known of it, the seeds that execute it, and the tests, in the order in which they are
    run; None: these are not asked."""

    mutant: Mutant
    kept: Verdict
    seeds: Sequence[int] | None
    tests: Sequence[str] | None


@dataclass(frozen=True)
class Judge:
    """Who judges: the simulator, on `most` seeds from `base` on, if `seeds` is there; the unit tests, if
    `tests` is there: of these only what the simulator has not killed."""

    base: int
    most: int
    seeds: Executed | None
    tests: Tests | None

    def case(self, mutant: Mutant, kept: Verdict | None) -> Case | None:
        """What is still to be asked about a mutant, None if nothing is. Called before any fork: in one,
        coverage would begin its data anew."""
        kept = kept or Verdict(mutant.name, mutant.room, mutant.operator, mutant.diff())
        seeds = tests = None
        if self.seeds is not None and kept.executed is None:
            asked = range(self.base, self.base + self.most)
            seeds = [seed for seed in sorted(map(int, self.seeds.of(mutant))) if seed in asked]
        if self.tests is not None and kept.tests is None and not kept.by_simulator:
            tests = self.tests.fastest_first(self.tests.executed.of(mutant))
        return None if seeds is None and tests is None else Case(mutant, kept, seeds, tests)

    def __call__(self, case: Case) -> bytes:
        """The verdict, as JSON. Called in a fork."""
        verdict = case.kept
        if case.seeds is not None:
            verdict.executed = len(case.seeds)
            if case.seeds:
                verdict.simulator = by_simulator(case.mutant, self.base, self.most, case.seeds)
        if case.tests is not None and not verdict.by_simulator:
            verdict.tests = by_tests(case.mutant, case.tests)
        return msgspec.json.encode(verdict)


def judged(
    mutants: Sequence[Mutant],
    judge: Judge,
    *,
    at_once: int,
    kept: Kept | None,
    say: Callable[[Verdict, int], None],
) -> list[Verdict]:
    """The verdicts on all mutants, in their order. What is `kept` already is not asked again. `say` gets each
    new one, and how many are left."""
    known, found = equivalents(), kept.verdicts() if kept else {}
    cases = [case for mutant in mutants if (case := judge.case(mutant, found.get(mutant.name)))]
    for count, (_, data) in enumerate(forks.each(cases, judge, at_once), 1):
        verdict = msgspec.json.decode(data, type=Verdict)
        found[verdict.name] = verdict
        if kept:
            kept.add(verdict)
        say(verdict, len(cases) - count)
    verdicts = [found[mutant.name] for mutant in mutants]
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        verdict.proof = proof_of(mutant, known)
    return verdicts


class OtherRound(Exception):
    """The directory has the verdicts of another round."""


class Kept:
    """Verdicts in a directory, one a line; of one mutant the last counts. `what`: sources and seeds, of which
    alone they hold. Where the tests have changed, those that no test killed are asked again. Raises
    OtherRound."""

    def __init__(self, directory: Path, what: str, tests: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file, about = directory / "verdicts", directory / "about"
        self._same_tests = True
        if about.exists():
            before, tests_before = about.read_text().splitlines()
            if before != what:
                raise OtherRound(f"{directory} is of {before}, not of {what}: name another directory")
            self._same_tests = tests_before == tests
        about.write_text(f"{what}\n{tests}\n")

    def verdicts(self) -> dict[str, Verdict]:
        """Those that are there, by their mutants' names."""
        lines = self._file.read_bytes().splitlines() if self._file.exists() else []
        found = [msgspec.json.decode(line, type=Verdict) for line in lines]
        for verdict in found:
            if not (self._same_tests or verdict.by_tests):
                verdict.tests = None
        return {verdict.name: verdict for verdict in found}

    def add(self, verdict: Verdict) -> None:
        """Keeps one more."""
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(verdict) + b"\n")
