"""Each reason code that the code declares has a page that says what to do."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from scripts.docs_site import commands, declared, reasons

ADVICE = tomllib.loads(reasons.ADVICE.read_text())
ABOUT = [*ADVICE["settled"], *ADVICE["under_way"], *ADVICE["act"]]


def test_something_is_said_of_each_code_that_is_declared_once_and_of_no_other():
    """A new reason needs its line in docs/reasons.toml."""
    assert [code for code, times in Counter(ABOUT).items() if times > 1] == []
    assert set(declared.reasons()) - set(ABOUT) == set()
    assert set(ABOUT) | set(ADVICE["means"]) == set(declared.reasons())


def test_each_code_has_its_page_which_says_what_it_means_and_what_to_do(pages: Path):
    for code, reason in reasons.advice().items():
        page = (pages / "reference" / "reasons" / f"{reasons.file_of(code)}.md").read_text()
        (part,) = [each for each in page.split("# ")[1:] if each.startswith(f"{code}\n")]
        assert "**What to do.** " in part
        assert reason.means or reason.declared.says, (
            f"{code}: docs/reasons.toml says nothing of what it means"
        )


def test_what_mooring_reason_prints_is_made_of_the_same():
    """After a change of a reason or of docs/reasons.toml: `python -m scripts.docs_site reasons`."""
    assert reasons.DATA.read_text() == reasons.data()


@pytest.mark.parametrize(
    "code", ["MultiAttach", "ClaimNotFound", "NodeNameHeldByAnother", "SufficientPods", "BackOff"]
)
def test_a_code_is_found_however_it_is_handed_on(code: str):
    """Directly, in an error, by a constant of another module, by a variable, by a function."""
    assert code in declared.reasons()


def test_a_message_shows_where_it_differs():
    assert "node {...} still uses the volume and has not unmounted it yet" in declared.reasons()["InUse"].says


def test_an_event_has_its_type():
    assert declared.reasons()["ForcedDetach"].types == {"Warning"}


def test_a_command_of_the_advice_exists():
    known = {command.path: command for command in commands.walk(commands.tree())}
    for said in re.findall(r"`(mooring [^`]+)`", reasons.ADVICE.read_text()):
        words = [word for word in said.split() if not word.startswith("-")]
        path = max((" ".join(words[:end]) for end in (2, 3)), key=lambda path: (path in known, len(path)))
        assert path in known, said
        flags = " ".join(option.flags for option in known[path].options)
        assert all(flag in flags for flag in re.findall(r"--[a-z-]+", said)), said


def test_a_flag_of_the_advice_exists():
    flags = {
        flag
        for command in commands.walk(commands.tree())
        for o in command.options
        for flag in o.flags.split()
    }
    said = set(re.findall(r"`(--[a-z-]+)", reasons.ADVICE.read_text()))
    assert said - {flag.rstrip(",") for flag in flags} - {"--controllers"} == set()
