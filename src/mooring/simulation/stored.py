"""A violation on disk: enough to play the very same run again, and to check that it is the same."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mooring.simulation.plan import Plan
from mooring.simulation.run import Outcome, play
from mooring.simulation.scenario import Scenario


class Stored(msgspec.Struct, frozen=True):
    """A run: its seed, world, plan and the scheduler's choices; and what was violated in it."""

    seed: int
    scenario: Scenario
    plan: Plan
    choices: list[int]
    digest: str
    violations: list[str]

    def play(self, *, lines: bool = False) -> Outcome:
        """The run again, from its choices; with the choices of its seed if none are stored."""
        return play(self.seed, self.scenario, plan=self.plan, choices=self.choices or None, lines=lines)


def write(directory: Path, scenario: Scenario, outcome: Outcome) -> Path:
    """Writes `<seed>.json` and returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    stored = Stored(
        outcome.seed, scenario, outcome.plan, outcome.choices, outcome.digest, [str(v) for v in outcome.violations]
    )
    path = directory / f"{outcome.seed}.json"
    path.write_bytes(msgspec.json.encode(stored))
    return path


def read(path: Path) -> Stored:
    """What `write` wrote. Raises `msgspec.ValidationError`."""
    return msgspec.json.decode(path.read_bytes(), type=Stored)
