"""How far two servers agree on mutations, and where they do not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.differential.mutations.draw import Mutation, place
from tests.differential.mutations.play import Outcome


@dataclass(frozen=True)
class Disagreement:
    """One mutation that the real server and ours answer differently."""

    mutation: Mutation
    real: Outcome
    ours: Outcome

    @property
    def subject(self) -> str:
        """The kind and the field, whichever entry of a list it is."""
        kind = self.mutation.sample.partition("/")[0]
        return f"{kind} {place(tuple('*' if isinstance(each, int) else each for each in self.mutation.path))}"

    def __str__(self) -> str:
        messages = f"\n      real: {self.real.message}" if self.real.message else ""
        messages += f"\n      ours: {self.ours.message}" if self.ours.message else ""
        return f"{self.mutation}\n      real {self.real} | ours {self.ours}{messages}"


@dataclass(frozen=True)
class Comparison:
    """What came of a round."""

    total: int
    disagreements: Sequence[Disagreement]

    @property
    def agreement(self) -> float:
        """The share of mutations that both answer alike, 0 to 1."""
        return 1 - len(self.disagreements) / max(self.total, 1)

    def summary(self, most: int = 15) -> str:
        """The agreement, and the fields with most disagreements."""
        counted = Counter(each.subject for each in self.disagreements)
        lines = [f"{count:5} {subject}" for subject, count in counted.most_common(most)]
        return "\n".join([f"{self.agreement:.2%} of {self.total} mutations agree", *lines])

    def listed(self) -> str:
        """Every disagreement."""
        return "\n".join(str(each) for each in sorted(self.disagreements, key=lambda each: each.subject))


def compare(mutations: Sequence[Mutation], real: Sequence[Outcome], ours: Sequence[Outcome]) -> Comparison:
    """Compare the outcomes of the same mutations."""
    pairs = zip(mutations, real, ours, strict=True)
    return Comparison(len(mutations), [Disagreement(each, r, o) for each, r, o in pairs if not r.agrees(o)])
