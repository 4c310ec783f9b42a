"""What the pages of docs/tutorials print is what a reader sees: each is typed from its first command on.

A page has a cluster of its own, which it starts and ends itself. What it exports, and where it goes (`cd`),
holds for its later commands, as in a reader's shell; a yaml or python block is saved under the name in its
first line, Python at the end of the file if there is one.
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
BLOCK = re.compile(r"```(yaml|python|console)\n(.*?)```", re.DOTALL)
PROGRAMS = ("kubectl", "aws", "git")
DATA_DIR = "/var/lib/mooring"
"""Where a reader's cluster is; the test's is elsewhere."""
UP = "mooring up"
"""A reader has one at a time, at the usual port; here others may start just now."""
SETUP = "make setup"
AS_SET_UP = f"ln -s {ROOT}/.venv .venv && .venv/bin/python hatch_build.py && export PYTHONPATH=$PWD/src"
"""A reader downloads what Mooring needs; here it is what these tests have, with the reader's sources."""


@dataclass
class Reader(Shell):
    """Types commands into one shell, in a folder of its own."""

    folder: Path = field(kw_only=True)
    data_dir: Path = field(kw_only=True)

    def run(self, command: str) -> tuple[int, str]:
        typed = command.replace(DATA_DIR, str(self.data_dir)).replace(UP, f"{UP} --port 0")
        typed = typed.replace(SETUP, AS_SET_UP)
        place, folder = shlex.quote(str(self.place)), shlex.quote(str(self.folder))
        keep = f"export -p > {folder}/exported; pwd > {folder}/place"
        return super().run(f". {folder}/exported; cd {place}\n{typed}\nstatus=$?; {keep}; exit $status")

    @property
    def place(self) -> Path:
        """Where the reader is."""
        return Path((self.folder / "place").read_text().rstrip("\n"))

    def save(self, block: str) -> None:
        name, _, text = block.partition("\n")
        target = self.place / name.removeprefix("# ")
        target.write_text(
            f"{target.read_text()}{text}" if target.suffix == ".py" and target.exists() else block
        )

    def follow(self, page: str) -> None:
        for kind, block in BLOCK.findall(page):
            if kind != "console":
                self.save(block)
            else:
                self.play(steps(block.splitlines()))


@pytest.fixture
def reader() -> Iterator[Reader]:
    folder = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "exported").touch()
    (folder / "place").write_text(f"{folder}\n")
    data_dir = folder / "d"
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MOORING_DATA_DIR": str(data_dir),
        "REPOSITORY": str(ROOT),
        **{
            f"GIT_{who}_{what}": "reader@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    reader = Reader(environ, folder=folder, data_dir=data_dir)
    try:
        yield reader
    finally:
        print(reader.run("cat up.log")[1])  # is shown where the test has failed
        reader.run("mooring down")
        shutil.rmtree(folder)


def test_there_are_tutorials():
    assert {"first-cluster", "on-call", "aws", "contributor"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_says(reader: Reader, page: Path):
    text = page.read_text()
    for program in PROGRAMS:
        if f"$ {program} " in text and shutil.which(program, path=reader.environ["PATH"]) is None:
            pytest.skip(f"{page.name} needs {program} on the PATH")
    if "$REPOSITORY" in text and not (ROOT / ".git").exists():
        pytest.skip(f"{page.name} needs a repository of git")
    reader.follow(text)
