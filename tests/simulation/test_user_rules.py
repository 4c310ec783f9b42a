"""A user's own rules are played in place of ours, and what comes of them is judged as ours is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import cli
from mooring.controllers.attachdetach import decide, release
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.user_rules import RULES, UserRulesError, rules_of
from mooring.simulation.run import play

EAGER = Path(__file__).parents[2] / "examples" / "simulation" / "eager_release.py"
CUT = Scenario(
    nodes=2,
    sets={"db": 1},
    minutes=9,
    faults=0,
    actions=0,
    steps=(
        PlanStep(60, "cut", "n0", 200),
        PlanStep(60, "cut", "n1", 200),
        PlanStep(130, "force-delete-pod", "db"),
    ),
)


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["simulate", "run", *map(str, arguments)])


def rules(directory: Path, text: str) -> Path:
    file = directory / "mine.py"
    file.write_text(text)
    return file


def test_a_policy_that_takes_silence_for_death_is_found():
    outcome = play(1, Scenario(**{**as_dict(CUT), "policy": str(EAGER)}))
    assert "S7" in outcome.invariants
    assert play(1, CUT).violations == []


def as_dict(scenario: Scenario) -> dict[str, object]:
    return {name: getattr(scenario, name) for name in scenario.__struct_fields__}


def test_after_the_run_our_rules_are_there_again():
    play(1, Scenario(minutes=6, policy=str(EAGER)))
    assert decide.may_release is release.may_release


def test_a_file_that_defines_no_rule_names_those_that_can_be_replaced(tmp_path: Path):
    file = rules(tmp_path, "from mooring.controllers.attachdetach.release import may_release\n")
    result = simulate("--policy", file)
    assert result.exit_code != 0
    assert f"defines none of the rules that can be replaced: {', '.join(RULES)}" in result.stderr


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path):
    file = rules(tmp_path, "def may_release(:\n")
    result = simulate("--policy", file)
    assert result.exit_code != 0
    assert f"{file} cannot be read: SyntaxError" in result.stderr
    with pytest.raises(UserRulesError, match="is not a Python file"):
        rules_of(str(tmp_path / "rules.txt"))


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_there_to_be_replaced(name: str):
    assert all(callable(getattr(module, name)) for module in RULES[name])
