"""Words that are completed, by shells and by kubectl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.completion import answer
from mooring.cli.main import ROOMS, cli


def candidates(*words: str) -> list[str]:
    return [line.partition("\t")[0] for line in answer(list(words)).splitlines()]


def test_kubectl_is_told_the_commands_and_that_no_file_is_one():
    *found, directive = candidates("")
    assert found == sorted(ROOMS)
    assert directive == ":4"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("wh",), ["why", ":4"]),
        (("node", "confirm"), ["confirm-dead", ":4"]),
        (("version", "-o", ""), ["text", "json", ":4"]),
        (("install", "--ch"), ["--chart", "--check", ":4"]),
        (("reason", "multi"), ["MultiAttach", ":4"]),
        (("nonsense", ""), [":4"]),
        ((), [*sorted(ROOMS), ":4"]),
    ],
)
def test_kubectl_is_told_what_may_follow(words: tuple[str, ...], expected: list[str]):
    found = candidates(*words)
    if words != ("nonsense", ""):
        assert found == expected
    assert found[-1] == ":4"


def test_where_a_file_is_meant_kubectl_offers_files():
    assert candidates("install", "--chart", "")[-1] == ":0"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_what_it_reads(shell: str):
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("needs bash")
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert "_MOORING_COMPLETE" in result.stdout


def test_bash_completes_a_word():
    """As bash does it: its function asks the program, with the words in variables."""
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    script = """
    eval "$(mooring completion bash)"
    COMP_WORDS=(mooring ver); COMP_CWORD=1; _mooring_completion mooring ver mooring
    echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["version"], done.stderr
