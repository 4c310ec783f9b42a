"""A stored violation is played again, with the mutant that it needs, and is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import cli
from mooring.simulation.checks.invariants import CHECKERS
from mooring.simulation.checks.rules import OTHERS, rule_of
from mooring.simulation.search.stored_run import read, write

STORED = Path(__file__).parent / "regressions" / "B02a-0.json"


def replay(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["simulate", "replay", *map(str, arguments)])


def test_a_run_that_needs_a_mutant_is_played_with_it_and_names_it():
    result = replay(STORED)
    assert result.exit_code == 1
    assert "is violated with the mutant B02a (a node mounts what its cache says is attached" in result.stderr
    assert "S7 at 90.0" in result.stdout


def test_without_its_mutant_it_violates_nothing():
    result = replay(STORED, "--without-mutant")
    assert result.exit_code == 0
    assert "played without it" in result.stderr


def test_a_run_whose_mutant_is_gone_says_so(tmp_path: Path):
    path = write(tmp_path, msgspec.structs.replace(read(STORED), mutant="B00"))
    result = replay(path)
    assert result.exit_code != 0
    assert "needs the mutant B00, which is not there any more" in result.stderr


def test_replay_is_an_option_too(tmp_path: Path):
    picture = tmp_path / "r.svg"
    for words in (["--replay", str(STORED)], [f"--replay={STORED}"]):
        result = CliRunner().invoke(cli, ["simulate", "--svg", str(picture), *words])
        assert result.exit_code == 1
        assert ET.fromstring(picture.read_text()).tag.endswith("svg")
        picture.unlink()


def test_replay_as_an_option_needs_a_file():
    result = CliRunner().invoke(cli, ["simulate", "--replay"])
    assert result.exit_code == 2
    assert "STORED" in result.stderr


def test_the_picture_marks_the_moment_and_says_the_rule(tmp_path: Path):
    result = replay(STORED, "--svg", tmp_path / "r.svg", "--html", tmp_path / "r.html")
    assert result.exit_code == 1
    picture = ET.fromstring((tmp_path / "r.svg").read_text())
    texts = ["".join(each.itertext()) for each in picture.iter() if each.tag.endswith("text")]
    assert texts.count("S7 is violated") == 2, "in the whole run, and in the seconds around it"
    assert any("detach" in text and "begins while it is mounted there" in text for text in texts)
    assert any("The rule S7: No detach begins" in text for text in texts)
    assert any("detach of data-db-0 from n0" in text for text in texts), "claims, not volumes"
    assert "B02a-0.json, with B02a: a node mounts" in texts[0]
    page = (tmp_path / "r.html").read_text()
    assert "No detach begins, or takes effect, while the device is mounted" in page
    assert "truth.begin" in page
    assert "  90.01" in page
    assert " 120." not in page.partition("The trace up to that moment")[2]


@pytest.mark.parametrize("name", dict.fromkeys([*(each.name for each in CHECKERS), "S7'", *OTHERS]))
def test_every_invariant_has_its_rule_in_words(name: str):
    assert rule_of(name).endswith(".")
    assert len(rule_of(name)) > 10


def test_the_rule_of_a_name_is_that_rule_alone():
    assert rule_of("S7").startswith("No detach begins")
    assert rule_of("S7'") == "No device is unmounted while a process there uses it."
    assert rule_of("S99") == ""
