"""Where our outcome of a case is not upstream's, and why ours is better: the data file `differences.json`.

For each package: `different` and `not played` (the cases, and the reason), `instead` (tables of inner
functions that have no counterpart, and what takes their place), `without a table` (test functions without a
table, and their counterparts). A case is named by its test and its number, or its name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).parent / "differences.json"


class Entry(NamedTuple):
    """Cases that differ, or are not played, for one reason."""

    cases: list[str]
    why: str


class Differences(NamedTuple):
    """What is known of one package."""

    different: list[Entry]
    not_played: list[Entry]
    instead: dict[str, str]
    without_a_table: dict[str, str]

    def reason(self, case: str) -> str | None:
        """Returns why a case may differ; None if it must not."""
        return next((each.why for each in self.different if number(case) in each.cases), None)

    def is_left_out(self, case: str) -> bool:
        """Whether the case is not played."""
        return any(number(case) in each.cases for each in self.not_played)


def number(case: str) -> str:
    """Returns the short name of a case: `Test: 1-2 - what happens` is `Test: 1-2`."""
    return case.partition(" - ")[0]


def known(package: str) -> Differences:
    """Returns what is known of one package, by the name of its file of tables."""
    found: dict[str, Any] = json.loads(PATH.read_text())[package]
    return Differences(
        [Entry(**each) for each in found["different"]],
        [Entry(**each) for each in found["not played"]],
        found["instead"],
        found["without a table"],
    )
