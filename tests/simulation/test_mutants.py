"""Known bugs can be put back in, and are found."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.simulation.search.mutants import MUTANTS, WAITING, PatchGone
from mooring.simulation.search.mutants.hunt import hunt
from mooring.simulation.search.mutants.mutant import Mutant, Patch

SOAK = bool(os.environ.get("MOORING_SOAK"))
QUICK = ("B13", "B24", "H2", "P1")


@pytest.mark.parametrize("name", MUTANTS)
def test_what_a_mutant_replaces_is_there(name: str):
    mutant = MUTANTS[name]
    before = [vars(each.owner)[each.name] for each in mutant.patches]
    with mutant.applied():
        during = [vars(each.owner)[each.name] for each in mutant.patches]
        assert all(one is not other for one, other in zip(before, during, strict=True))
    assert [vars(each.owner)[each.name] for each in mutant.patches] == before


def test_a_mutant_of_something_that_is_gone_says_so():
    with (
        pytest.raises(PatchGone, match="has no nothing any more"),
        Mutant(
            "f", "o", ("S1",), MUTANTS["B01"].scenario, (Patch(Mutant, "nothing", lambda original: original),)
        ).applied(),
    ):
        pass


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MUTANTS if SOAK else QUICK)
def test_a_mutant_is_killed_by_what_should_kill_it(name: str):
    verdict = hunt(name, most=60 if SOAK else 12)
    assert verdict.killed
    assert not verdict.by_deadline_only or verdict.for_good


def test_a_mutant_falls_to_what_holds_at_each_step_or_says_why_it_does_not():
    for name, mutant in MUTANTS.items():
        late = all(each.startswith("L") for each in mutant.killers)
        assert late == bool(mutant.omits), name


def test_what_waits_for_a_part_is_not_hunted():
    assert not set(WAITING) & set(MUTANTS)
    assert all(WAITING.values())


def test_the_command_tells_of_each_mutant_by_what_it_was_killed():
    answer = CliRunner().invoke(cli, ["simulate", "mutants", "P1", "--seeds", "12"])
    assert answer.exit_code == 0, answer.output
    assert "P1    killed by S1" in answer.output
    assert "1 of 1 mutants killed" in answer.output
