"""A data directory of another version: a newer one is refused, an older one is brought up to date."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.data_schema import FILE, SchemaRefused, Step, check, upgrade


def step(name: str, done: list[str], fails: bool = False) -> Step:
    def act(directory: Path) -> None:
        done.append(name)
        if fails:
            raise OSError("no room")

    return act


def numbered(directory: Path, content: str) -> Path:
    (directory / FILE).write_text(content)
    return directory


def test_a_new_directory_gets_the_present_number(tmp_path: Path):
    done: list[str] = []
    assert upgrade(tmp_path, [step("one", done), step("two", done)]) == 0
    assert json.loads((tmp_path / FILE).read_text()) == {"schema": 2}
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_an_older_one_is_brought_up_to_date_by_the_steps_that_it_lacks(tmp_path: Path):
    done: list[str] = []
    upgrade(numbered(tmp_path, '{"schema": 1}'), [step("one", done), step("two", done), step("three", done)])
    assert done == ["two", "three"]
    assert check(tmp_path, [step("", [])] * 3) == 3


def test_what_is_up_to_date_is_left_alone(tmp_path: Path):
    done: list[str] = []
    file = numbered(tmp_path, '{"schema": 1, "later": "words"}') / FILE
    assert upgrade(tmp_path, [step("one", done)]) == 1
    assert done == []
    assert file.read_text() == '{"schema": 1, "later": "words"}'


def test_a_step_that_failed_is_done_again(tmp_path: Path):
    done: list[str] = []
    with pytest.raises(OSError, match="no room"):
        upgrade(tmp_path, [step("one", done), step("two", done, fails=True)])
    assert check(tmp_path, [step("", [])] * 2) == 1
    upgrade(tmp_path, [step("one", done), step("two", done)])
    assert done == ["one", "two", "two"]


def test_a_newer_one_is_refused_with_both_numbers_and_left_as_it_is(tmp_path: Path):
    done: list[str] = []
    numbered(tmp_path, '{"schema": 7}')
    with pytest.raises(
        SchemaRefused, match=r"newer version of Mooring: its schema is 7, .* up to 2\. Use that"
    ):
        upgrade(tmp_path, [step("one", done), step("two", done)])
    assert done == []
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "1", "{}", '{"schema": 0}', '{"schema": "1"}', '{"schema": true}', "[" * 100_000],
)
def test_a_number_that_cannot_be_read_is_refused_and_not_taken_for_none(tmp_path: Path, content: str):
    with pytest.raises(SchemaRefused, match=r"schema\.json is damaged"):
        upgrade(numbered(tmp_path, content), [step("one", [])])
    assert (tmp_path / FILE).read_text() == content
