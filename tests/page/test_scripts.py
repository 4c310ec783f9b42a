"""The page's scripts are modules that say what they need, and make one script in their order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mooring.page.scripts import SCRIPTS, as_one, path_of
from mooring.page.server import FILES, asset

ASSETS = Path(__file__).parents[2] / "src/mooring/page/assets"
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+|\$)", re.MULTILINE)
IMPORT = re.compile(r'^import (?:\{ ([\w$, ]+) \} from )?"\./(\w+)\.js";$')


def names(script: str) -> set[str]:
    return {*DECLARED.findall(asset(path_of(script)))}


def imports(script: str) -> dict[str, list[str]]:
    """By module, what a script takes from it."""
    lines = [line for line in asset(path_of(script)).splitlines() if line.startswith("import")]
    found = [IMPORT.match(line) for line in lines]
    assert all(found), f"an import of {script} is not a line of its own, of one of these modules"
    return {each[2]: (each[1] or "").split(", ") if each[1] else [] for each in found if each}


def test_every_script_is_served_and_in_the_order():
    assert {each.stem for each in (ASSETS / "js").iterdir()} == {*SCRIPTS}
    assert {f"/{path_of(script)}" for script in SCRIPTS} <= {*FILES}


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_takes_is_exported_there(script: str):
    for other, taken in imports(script).items():
        text = asset(path_of(other))
        exported = {*re.findall(r"^export (?:async )?(?:function|const|let) (\w+|\$)", text, re.MULTILINE)}
        exported |= {
            name
            for line in re.findall(r"^export (?:const|let) (.*)$", text, re.MULTILINE)
            for name in re.findall(r"(\w+) = ", line)
        }
        assert {*taken} <= exported, (script, other)


def test_no_two_scripts_have_something_of_one_name():
    every = [name for script in SCRIPTS for name in names(script)]
    assert sorted(every) == sorted({*every})


def test_as_one_there_is_nothing_to_import_and_nothing_to_export():
    whole = as_one(asset)
    assert not re.findall(r"^(?:import|export)\b", whole, re.MULTILINE)
    for script in SCRIPTS:
        assert all(name in whole for name in names(script))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_short_and_says_what_it_is_for(script: str):
    text = asset(path_of(script))
    assert text.startswith("// ")
    assert len(text.splitlines()) <= 200
