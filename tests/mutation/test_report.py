"""The bar, and what is kept of a round."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mutation.by_simulator import BySimulator
from tests.mutation.by_tests import ByTests
from tests.mutation.campaign import Kept, OtherRound, Verdict
from tests.mutation.report import lines, shares


def verdict(
    name: str = "m", *, executed: int = 1, simulator: bool = False, tests: bool = False, proof: str = ""
) -> Verdict:
    return Verdict(
        name,
        "room",
        "boundary",
        f"diff of {name}",
        executed,
        BySimulator(how="violated" if simulator else "", invariants=["S1"]) if executed else None,
        ByTests(how="failed" if tests else "", killer="test_x"),
        proof,
    )


def below(verdicts: list[Verdict], by: str = "both") -> list[str]:
    return [share.what for share in shares(verdicts, by) if not share.holds]


def test_the_simulator_alone_has_to_kill_what_a_seed_executes():
    verdicts = [verdict(simulator=True)] * 84 + [verdict(tests=True)] * 16
    assert below(verdicts) == ["killed by the simulator alone, of those that a seed executes"]
    assert below([verdict(simulator=True)] * 85 + [verdict(tests=True)] * 15) == []


def test_both_together_have_to_kill_nearly_all():
    assert below([verdict(simulator=True)] * 97 + [verdict()] * 3) == []
    assert below([verdict(simulator=True)] * 96 + [verdict()] * 4) == [
        "killed by simulator and unit tests together"
    ]


def test_what_no_seed_executes_is_the_unit_tests_to_kill():
    most = [verdict(simulator=True)] * 900
    apart = [verdict(executed=0, tests=True)] * 19
    assert below([*most, *apart, verdict(executed=0)]) == []
    assert below([*most, *apart, *[verdict(executed=0)] * 2]) == [
        "killed by unit tests, of those that no seed executes"
    ]


def test_not_many_may_be_called_equivalent():
    proven = verdict(proof="It changes nothing.")
    assert below([verdict(simulator=True)] * 9 + [proven]) == []
    assert below([verdict(simulator=True)] * 8 + [proven]) == ["equivalent"]


def test_what_is_killed_is_not_equivalent_and_the_report_says_so():
    wrong = verdict("wrong", simulator=True, proof="It changes nothing.")
    assert not wrong.equivalent
    assert "PROVEN EQUIVALENT, AND KILLED" in "\n".join(lines([wrong], "both"))


def test_the_report_shows_survivors_with_their_diffs_and_ends_with_the_sums():
    verdicts = [verdict("a", simulator=True), verdict("b"), verdict("c", proof="It changes nothing.")]
    found = [*lines(verdicts, "both")]
    assert found[-1] == "killed 1 of 2 (equivalent 1)"
    assert "diff of b" in "\n".join(found)
    assert "diff of a" not in "\n".join(found)


def test_kept_verdicts_are_found_again(tmp_path: Path):
    Kept(tmp_path, "20 seeds", "tests").add(verdict("a"))
    assert Kept(tmp_path, "20 seeds", "tests").verdicts() == {"a": verdict("a")}


def test_verdicts_of_other_sources_or_seeds_are_not_taken(tmp_path: Path):
    Kept(tmp_path, "20 seeds", "tests")
    with pytest.raises(OtherRound, match="name another directory"):
        Kept(tmp_path, "30 seeds", "tests")


def test_where_tests_have_changed_those_that_killed_nothing_are_asked_again(tmp_path: Path):
    kept = Kept(tmp_path, "20 seeds", "tests")
    kept.add(verdict("survivor"))
    kept.add(verdict("killed", tests=True))
    found = Kept(tmp_path, "20 seeds", "other tests").verdicts()
    assert found["survivor"].tests is None
    assert found["killed"] == verdict("killed", tests=True)
