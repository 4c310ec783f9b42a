"""The golden traces are what the code does. `python -m tests.golden` makes them anew: look at what
changed."""

from __future__ import annotations

import pytest
from tests.golden.golden import DIRECTORY, path, texts
from tests.golden.schedules import SCHEDULES
from tests.golden.simulated import STORIES

NAMES = [*(schedule.name for schedule in SCHEDULES), *(story.name for story in STORIES)]
HARMFUL = [*(schedule.name for schedule in SCHEDULES), *(story.name for story in STORIES if story.mutant)]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return texts()


@pytest.mark.parametrize("name", NAMES)
def test_what_happens_is_what_the_file_says(made: dict[str, str], name: str):
    assert made[name] == path(name).read_text()


def test_there_is_a_schedule_for_each_file(made: dict[str, str]):
    assert {file.stem for file in DIRECTORY.glob("*.txt")} == set(made)


@pytest.mark.parametrize("name", HARMFUL)
def test_what_happens_does_harm_without_its_rule_and_none_with_it(made: dict[str, str], name: str):
    with_it, _, without_it = made[name].partition("WITHOUT THE RULE")
    assert "HARM" not in with_it
    assert "HARM" in without_it
