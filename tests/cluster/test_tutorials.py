"""What the pages of docs/tutorials print is what a reader sees: each is typed from its first command on.

A page has a cluster of its own, which it starts and ends itself. What it exports holds for its later
commands, as in a reader's shell; a yaml block is saved under the name in its first line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cluster.scripted import ROOT, Shell, steps

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(900)]

PAGES = sorted((ROOT / "docs/tutorials").glob("*.md"))
BLOCK = re.compile(r"```(yaml|console)\n(.*?)```", re.DOTALL)
PROGRAMS = ("kubectl", "aws")
DATA_DIR = "/var/lib/mooring"
"""Where a reader's cluster is; the test's is elsewhere."""
UP = "mooring up"
"""A reader has one at a time, at the usual port; here others may start just now."""


@dataclass
class Reader(Shell):
    """Types commands into one shell, in a folder of its own."""

    folder: Path = field(kw_only=True)
    data_dir: Path = field(kw_only=True)

    def run(self, command: str) -> tuple[int, str]:
        typed = command.replace(DATA_DIR, str(self.data_dir)).replace(UP, f"{UP} --port 0")
        return super().run(
            f"cd {shlex.quote(str(self.folder))}; . ./exported\n{typed}\nstatus=$?; {KEEP}; exit $status"
        )

    def save(self, manifest: str) -> None:
        name = manifest.partition("\n")[0].removeprefix("# ")
        (self.folder / name).write_text(manifest)

    def follow(self, page: str) -> None:
        for kind, block in BLOCK.findall(page):
            if kind == "yaml":
                self.save(block)
            else:
                self.play(steps(block.splitlines()))


KEEP = "export -p > ./exported"


@pytest.fixture
def reader() -> Iterator[Reader]:
    folder = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "exported").touch()
    data_dir = folder / "d"
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MOORING_DATA_DIR": str(data_dir),
    }
    reader = Reader(environ, folder=folder, data_dir=data_dir)
    try:
        yield reader
    finally:
        print(reader.run("cat up.log")[1])  # is shown where the test has failed
        reader.run("mooring down")
        shutil.rmtree(folder)


def test_there_are_tutorials():
    assert {"first-cluster", "on-call", "aws"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_says(reader: Reader, page: Path):
    text = page.read_text()
    for program in PROGRAMS:
        if f"$ {program} " in text and shutil.which(program) is None:
            pytest.skip(f"{page.name} needs {program} on the PATH")
    reader.follow(text)
