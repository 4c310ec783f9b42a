"""`mooring reason`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.why.reason_pages import pages


def said(*words: str) -> str:
    result = CliRunner().invoke(cli, ["reason", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_of_a_code_is_printed():
    printed = said("NodeNotAnswering")
    assert printed.startswith("NodeNotAnswering\n")
    assert "What to do: Bring the node back" in printed
    assert "mooring node confirm-dead" in " ".join(printed.split())


def test_several_codes_have_their_pages_one_after_the_other():
    printed = said("InUse", "MultiAttach")
    assert 0 <= printed.index("InUse\n") < printed.index("\nMultiAttach\n")


def test_a_program_reads_the_same():
    (page,) = json.loads(said("MultiAttach", "-o", "json"))
    assert page["code"] == "MultiAttach"
    assert page["do"] == pages()["MultiAttach"].do


def test_without_a_code_all_are_listed():
    assert [line.split()[0] for line in said().splitlines()] == list(pages())


@pytest.mark.parametrize(("code", "hint"), [("multiattach", "perhaps MultiAttach"), ("%%", "lists all")])
def test_an_unknown_code_is_answered_by_those_that_are_near(code: str, hint: str):
    result = CliRunner().invoke(cli, ["reason", code])
    assert result.exit_code == 1
    assert hint in result.output


def test_what_was_asked_for_does_no_harm_to_a_terminal():
    output = CliRunner().invoke(cli, ["reason", "\x1b]0;x\x07" + "y" * 500]).output
    assert "\x1b" not in output
    assert len(output) < 300
