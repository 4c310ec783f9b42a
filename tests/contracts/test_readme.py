"""The README is a page: what it is, two commands, five things that nothing else does, where to read on."""

from __future__ import annotations

import re

from tests.contracts.references import ROOT

from mooring.cli.main import ROOMS

README = (ROOT / "README.md").read_text()


def test_it_has_one_block_of_two_commands_that_exist():
    (block,) = re.findall(r"^```\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    commands = [line.partition("#")[0].split() for line in block.splitlines()]
    assert len(commands) == 2
    for words in commands:
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        else:
            assert words[1].endswith("/mooring")
            assert words[2] in ROOMS


def test_it_has_five_points_each_of_two_lines_with_a_link():
    part = README.partition("## What nothing else does\n")[2].partition("\n## ")[0]
    points = re.split(r"^- ", part.strip(), flags=re.MULTILINE)[1:]
    assert len(points) == 5
    assert [point for point in points if len(point.splitlines()) > 2 or "](docs/" not in point] == []


def test_the_page_it_leads_to_has_a_row_for_each_command():
    page = (ROOT / "docs/up.md").read_text()
    assert [name for name in ROOMS if not re.search(rf"`[^`]*\b{name}\b[^`]*`", page)] == []
