"""What docs/why.md shows is what `mooring why` prints: each section is played on a running cluster."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cluster.scripted import ROOT, Shell, steps

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]

PAGE = ROOT / "docs/why.md"
BLOCK = re.compile(r"```(yaml|console)\n(.*?)```", re.DOTALL)


class Section(NamedTuple):
    title: str
    text: str


def sections() -> list[Section]:
    """The parts of the page that have a script."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    found = [Section(part.partition("\n")[0], part) for part in parts]
    return [each for each in found if "```console" in each.text]


@pytest.mark.parametrize("section", sections(), ids=lambda each: each.title.replace(" ", "-"))
def test_the_page_says_what_is_printed(shell: Shell, section: Section, tmp_path: Path):
    try:
        for kind, block in BLOCK.findall(section.text):
            if kind == "yaml":
                manifest = tmp_path / "manifest.yaml"
                manifest.write_text(block)
                status, printed = shell.run(f"kubectl apply -f {manifest}")
                assert status == 0, printed
            elif os.environ.get("MOORING_ACCEPT"):
                accept(shell, block)
            else:
                shell.play(steps(block.splitlines()))
    finally:
        shell.clean()


def accept(shell: Shell, block: str) -> None:
    written: list[str] = []
    for command, expected in steps(block.splitlines()):
        printed = shell.printed(command) if expected.strip() else shell.run(command)[1] and ""
        written.append(f"$ {command}\n{printed.rstrip()}".rstrip())
    PAGE.write_text(PAGE.read_text().replace(block, "\n\n".join(written) + "\n"))
