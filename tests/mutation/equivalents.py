"""Mutants that are proven to change nothing: `equivalents.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
from tests.mutation.mutants import Mutant

FILE = Path(__file__).parent / "equivalents.toml"


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of them. Several lines are separated by newlines, and have no indentation."""

    file: str
    function: str
    operator: str
    before: str
    after: str
    proof: str

    def is_this(self, mutant: Mutant) -> bool:
        """Whether the mutant is the one that the proof is about."""
        return (self.file, self.function, self.operator, self.before, self.after) == (
            mutant.file,
            mutant.function,
            mutant.operator,
            "\n".join(mutant.before),
            "\n".join(mutant.after),
        )


def equivalents() -> list[Equivalent]:
    """All that are listed."""
    return msgspec.convert(tomllib.loads(FILE.read_text()).get("equivalent", []), list[Equivalent])


def proof_of(mutant: Mutant, known: list[Equivalent]) -> str:
    """Why the mutant changes nothing; "" if that is not known."""
    return next((each.proof for each in known if each.is_this(mutant)), "")
