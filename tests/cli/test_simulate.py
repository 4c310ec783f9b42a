"""`mooring simulate`: each command has its own options, and a run is the default."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from mooring.cli.main import cli

TINY = "minutes: 6\nnodes: 1\nsets: {db: 1}\nfaults: 0\nactions: 0\n"


def simulate(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["simulate", *words])
    return result.exit_code, result.output


def scenario(directory: Path) -> str:
    path = directory / "tiny.yaml"
    path.write_text(TINY)
    return str(path)


def test_help_names_every_command():
    status, output = simulate("--help")
    assert status == 0
    for command in ("run", "trace", "replay", "systematic", "exhaustive", "mutants", "regressions"):
        assert f"\n  {command} " in output


def test_a_run_needs_no_command(tmp_path: Path):
    words = (scenario(tmp_path), "--seeds", "1", "--workers", "1")
    for status, output in (simulate(*words), simulate("run", *words)):
        assert status == 0, output
        assert "0 seeds with violations" in output


def test_what_is_neither_a_command_nor_a_file_is_named_with_the_commands():
    status, output = simulate("mutnats")
    assert status == 2
    assert "mutnats is neither a command (" in output
    assert "mutants" in output


def test_a_command_refuses_the_options_of_another():
    status, output = simulate("exhaustive", "--seeds", "3")
    assert status == 2
    assert "--seeds" in output


def test_a_trace_prints_what_happened_and_its_hash(tmp_path: Path):
    status, output = simulate("trace", scenario(tmp_path), "--seed", "3")
    assert status == 0
    assert "truth.mounted" in output
    assert "seed 3: " in output


def test_an_unknown_mutant_is_named_with_those_that_exist():
    status, output = simulate("mutants", "B99")
    assert status == 1
    assert "no mutant B99; there are " in output


def test_a_file_that_is_no_stored_run_is_named(tmp_path: Path):
    status, output = simulate("replay", scenario(tmp_path))
    assert status == 1
    assert "tiny.yaml is not a stored run" in output
