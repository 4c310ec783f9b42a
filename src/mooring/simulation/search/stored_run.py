"""A violation on disk: enough to play the very same run again, and to check that it is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from mooring.simulation.cluster.plan import Plan
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.trace import Trace
from mooring.simulation.run import Outcome, moments_of, play


class StoredRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run: its seed, scenario, plan and the scheduler's choices (None: those of the seed); and what was
    violated in it.

    With `mutant` it was violated with that bug put back in, and only then.
    """

    seed: int
    scenario: Scenario
    plan: Plan
    choices: dict[int, int] | None
    digest: str = ""
    violations: list[str] = []
    mutant: str = ""

    def play(self, *, lines: bool = False, observe: Callable[[Trace], object] = id) -> Outcome:
        """The run again, as `simulation.run.play` does; without the mutant."""
        return play(
            self.seed, self.scenario, plan=self.plan, choices=self.choices, lines=lines, observe=observe
        )

    @property
    def events(self) -> int:
        """Of how many things the run is made that could have been otherwise: steps of the plan, and
        choices."""
        return len(self.plan) + len(self.choices or {})

    @property
    def violated(self) -> list[tuple[str, float]]:
        """Which invariants, and when (seconds)."""
        return moments_of(self.violations)


def stored(outcome: Outcome) -> StoredRun:
    """A run as it was."""
    return StoredRun(
        outcome.seed,
        outcome.scenario,
        outcome.plan,
        outcome.choices,
        outcome.digest,
        list(outcome.violations),
    )


def write(directory: Path, run: StoredRun) -> Path:
    """Writes `<seed>.json` (with the mutant's name before it, if there is one) and returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{run.mutant}{'-' if run.mutant else ''}{run.seed}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
    return path


def read(path: Path) -> StoredRun:
    """What `write` wrote. Raises `msgspec.ValidationError`."""
    return msgspec.json.decode(path.read_bytes(), type=StoredRun)
