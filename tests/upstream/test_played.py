"""Upstream's tables, played against our controllers: each case comes out as upstream's, or the reason is on
record.

`python -m tests.upstream` writes the outcome into docs/upstream-tests.md.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
from tests.upstream.differences import known, number
from tests.upstream.outcomes import PACKAGES
from tests.upstream.page import PAGE, page_with, section
from tests.upstream.tables import read

Outcomes = dict[str, list[str]]
LARGEST_SHARE_WITHOUT_A_CASE = 0.15
INNER_HELPERS = {"volumebinding"}
"""Where more of the cases are about inner helpers: here 69 of 168, about what is assumed and written."""


class Played(Mapping[str, Outcomes]):
    """The packages' outcomes: each is played once, when it is asked for, however many processes run tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> Outcomes:
        file = self._folder / f"{name}.json"
        with open(self._folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                file.write_bytes(msgspec.json.encode(PACKAGES[name]()))
        return msgspec.json.decode(file.read_bytes(), type=Outcomes)

    def __iter__(self) -> Iterator[str]:
        return iter(PACKAGES)

    def __len__(self) -> int:
        return len(PACKAGES)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    of_this_run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        of_this_run = of_this_run.parent
    folder = of_this_run / "upstreams-tables"
    folder.mkdir(exist_ok=True)
    return Played(folder)


@pytest.mark.parametrize("name", PACKAGES)
def test_each_case_comes_out_as_upstreams_or_the_reason_is_on_record(played: Played, name: str):
    differences = known(name)
    unknown = {
        case: lines for case, lines in played[name].items() if lines and differences.reason(case) is None
    }
    assert not unknown


@pytest.mark.parametrize("name", PACKAGES)
def test_each_reason_on_record_is_of_a_case_that_differs(played: Played, name: str):
    different = {number(case) for case, lines in played[name].items() if lines}
    assert {case for entry in known(name).different for case in entry.cases} == different


@pytest.mark.parametrize("name", PACKAGES)
def test_each_test_of_upstream_is_played_or_something_takes_its_place(played: Played, name: str):
    differences, tests = known(name), set(read(name).tests)
    of_cases = {case.partition(":")[0].partition(",")[0] for case in played[name]}
    assert of_cases | differences.instead.keys() | differences.without_a_table.keys() == tests


def test_few_cases_have_no_counterpart():
    names = PACKAGES.keys() - INNER_HELPERS
    tables = [(table.test in known(name).instead, table) for name in names for table in read(name).tables]
    without = sum(len(table.rows) for instead, table in tables if instead)
    assert without <= LARGEST_SHARE_WITHOUT_A_CASE * sum(len(table.rows) for _, table in tables)


def test_the_page_says_how_the_cases_came_out(played: Played):
    assert PAGE.read_text() == page_with("\n".join(section(name, each) for name, each in played.items()))
