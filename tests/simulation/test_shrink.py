"""A violation is made small, and what is stored plays again; stored violations stay mended."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.parts.array_plugin import Array
from mooring.simulation.run import play
from mooring.simulation.search.mutants import MUTANTS
from mooring.simulation.search.shrink import keep, shrink
from mooring.simulation.search.stored_run import StoredRun, read, stored

NEIGHBOURS = 6
REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))


def violation(monkeypatch: pytest.MonkeyPatch) -> StoredRun:
    """Of a run whose array forgets to detach."""
    monkeypatch.setattr(Array, "_do_detach", lambda self, disk, node: None)
    scenario = Scenario(nodes=2, sets={"db": 1}, minutes=8)
    return stored(play(1, scenario))


def test_a_violation_is_shrunk_to_a_few_events_and_stays_the_same_violation(monkeypatch: pytest.MonkeyPatch):
    found = violation(monkeypatch)
    small = shrink(found, attempts=60)
    assert found.events > 30
    assert small.events <= 5
    assert small.violated[0][0] in small.play().invariants
    assert small.play().digest == small.digest


def test_what_is_stored_is_read_again_and_plays_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    found = violation(monkeypatch)
    outcome = play(found.seed, found.scenario)
    ((path, small),) = keep(tmp_path, [outcome])
    assert read(path) == small
    assert read(path).play().digest == small.digest


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_violated_once_is_not_violated_any_more_but_by_its_mutant(path: Path):
    run = read(path)
    assert run.play().violations == []
    if run.mutant:
        with MUTANTS[run.mutant].applied():
            found = any(violates(run, run.seed + more) for more in range(NEIGHBOURS))
        assert found, (
            f"it does not come to the bug any more: mooring simulate regressions DIRECTORY {run.mutant}"
        )


def violates(run: StoredRun, seed: int) -> bool:
    """The same plan with other small delays will do: those change with the code."""
    invariants = msgspec.structs.replace(run, seed=seed).play().invariants
    return bool({name for name, _ in run.violated} & set(invariants))
