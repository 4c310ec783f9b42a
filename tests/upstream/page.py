"""The part of docs/upstream-tests.md that says how upstream's tables came out here."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.upstream.differences import Entry, known, number
from tests.upstream.tables import read

PAGE = Path(__file__).parents[2] / "docs/upstream-tests.md"
BEGIN, END = "<!-- python -m tests.upstream: begin -->", "<!-- python -m tests.upstream: end -->"
WIDTH = 110
Outcomes = Mapping[str, list[str]]
"""Case → differences, of all cases that were played."""


def section(package: str, outcomes: Outcomes) -> str:
    """Returns the text about one package."""
    differences, facts = known(package), read(package)
    lines = [
        f"### {facts.package.removeprefix('k8s.io/kubernetes/')}, {facts.version}",
        "",
        *_table(package, outcomes),
    ]
    lines += ["", "Different, and why:", "", *map(_item, differences.different)]
    if differences.not_played:
        lines += ["", "Not played, because it is", "", *map(_item, differences.not_played)]
    if differences.instead:
        lines += ["", "Tables of inner functions, and what takes their place:", ""]
        lines += [_wrapped(f"{test}: {place}") for test, place in differences.instead.items()]
    if differences.without_a_table:
        lines += ["", "Tests without a table, and their counterparts:", ""]
        lines += [_wrapped(f"{test}: {place}") for test, place in differences.without_a_table.items()]
    return "\n".join(lines) + "\n"


def _table(package: str, outcomes: Outcomes) -> list[str]:
    differences = known(package)
    played = Counter(case.partition(":")[0].partition(",")[0] for case in outcomes)
    different = Counter(case.partition(":")[0] for case, lines in outcomes.items() if lines)
    left = Counter(case.partition(":")[0] for entry in differences.not_played for case in entry.cases)
    rows = [
        f"| {test} | {played[test]} | {played[test] - different[test]} | {different[test]} | {left[test]} |"
        for test in sorted(played)
    ]
    total = [sum(played.values()), sum(played.values()) - sum(different.values()), sum(different.values())]
    last = f"| **all** | {total[0]} | {total[1]} | {total[2]} | {sum(left.values())} |"
    return ["| table | played | same | different | not played |", "|---|---|---|---|---|", *rows, last]


def _item(entry: Entry) -> str:
    return _wrapped(f"{', '.join(map(number, entry.cases))}: {entry.why}")


def _wrapped(text: str) -> str:
    return textwrap.fill(
        f"- {text}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def page_with(text: str) -> str:
    """Returns the page with this text as its generated part."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}"
