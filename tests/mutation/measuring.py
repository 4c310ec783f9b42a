"""Measures once which lines each seed, and each test, executes. What was measured is kept for as long as
neither sources nor tests change."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage
import msgspec
from tests.mutation import forks, noting
from tests.mutation.by_simulator import Played, imported, play_one
from tests.mutation.execution import Executed
from tests.mutation.rooms import ROOT, SOURCE

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mooring" / "mutation"

DONE = "done"
"""A file beside what was measured as a whole."""

UNIT_TESTS = (
    "apiserver", "cloud", "cluster/in_process", "controllers", "csi", "csi_disk", "differential", "ebs", "kube",
    "mounts", "node", "upstream", "volumes", "why",
)  # fmt: skip
"""Folders of tests that kill mutants beside the simulator: not the simulator's own, nor those whose golden
traces it plays; not what needs root, or the machine for itself."""
OPTIONS = ("-q", "-p", "no:cacheprovider", "-m", "not root")

NOTED = ("-p", "tests.mutation.noting", "--timeout", "3600")
"""Coverage makes tests slower; and a timeout's signal within coverage's own lock would hang."""


class NotClean(Exception):
    """What is measured fails without any mutant."""


@dataclass(frozen=True)
class Tests:
    """What the unit tests execute, and how many seconds each takes."""

    executed: Executed
    seconds: Mapping[str, float]

    def fastest_first(self, names: Iterable[str]) -> list[str]:
        """These tests in the order in which they are run; files as a whole come last."""
        found = sorted(names)
        return sorted(found, key=lambda name: self.seconds.get(name, float("inf")))


def seeds(first: int, most: int, at_once: int, rooms: Sequence[str]) -> Executed:
    """Plays these seeds without a mutant, and measures which lines of the rooms they execute. Raises NotClean
    if one is violated: it would kill every mutant."""
    named = hashlib.blake2b(" ".join(sorted(rooms)).encode(), digest_size=4).hexdigest()
    into = _with_more(CACHE / state_of(SOURCE) / f"rooms-{named}", first, most)
    if not (into / DONE).exists():
        pieces = [range(first + piece, first + most, at_once) for piece in range(at_once)]
        folders = [str(SOURCE / room) for room in rooms]
        numbered = [(into / f"lines.{piece.start}", piece, folders) for piece in pieces]
        _emptied(into)
        violated = [
            seed
            for _, found in forks.each(numbered, _measure_seeds, at_once)
            for seed in msgspec.json.decode(found, type=list[int])
        ]
        if violated:
            raise NotClean(
                f"without any mutant there are violations in the seeds {sorted(violated)}: mend them first"
            )
        (into / DONE).touch()
    return Executed(into.glob("lines.*"), [SOURCE / room for room in rooms])


def _with_more(folder: Path, first: int, most: int) -> Path:
    """Where these seeds are measured: perhaps among more of them."""
    for done in sorted(folder.glob(f"seeds-{first}-*/{DONE}")):
        if int(done.parent.name.rpartition("-")[2]) >= most:
            return done.parent
    return folder / f"seeds-{first}-{most}"


def _measure_seeds(piece: tuple[Path, range, list[str]]) -> bytes:
    path, numbers, folders = piece
    measured = coverage.Coverage(data_file=str(path), source=folders, config_file=False, messages=False)
    measured.start()
    imported()
    violated: list[int] = []
    for seed in numbers:
        measured.switch_context(str(seed))
        found: Played = play_one(seed)
        violated += [seed] if found.invariants else []
    measured.stop()
    measured.save()
    return msgspec.json.encode(violated)


def tests(at_once: int) -> Tests:
    """Runs the unit tests without a mutant. Raises NotClean if one of them fails."""
    into = CACHE / tests_state() / "tests"
    if not (into / DONE).exists():
        _emptied(into)
        command = [
            sys.executable,
            "-m",
            "pytest",
            *OPTIONS,
            *NOTED,
            "-n",
            str(at_once),
        ]
        done = subprocess.run(
            [*command, "--dist", "loadfile", *(f"tests/{folder}" for folder in UNIT_TESTS)],
            cwd=ROOT,
            env={**os.environ, noting.INTO: str(into)},
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise NotClean(f"without any mutant the unit tests fail:\n{done.stdout[-4000:]}")
        (into / DONE).touch()
    seconds: dict[str, float] = {}
    for path in sorted(into.glob("seconds.*")):
        seconds |= json.loads(path.read_text())
    return Tests(Executed(into.glob("lines.*")), seconds)


def _emptied(into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)


def tests_state() -> str:
    """A hash of the sources and of the unit tests."""
    return state_of(SOURCE, ROOT / "tests/doubles", *(ROOT / "tests" / folder for folder in UNIT_TESTS))


def state_of(*folders: Path) -> str:
    """A hash of all Python files of the folders, as they are in the working tree."""
    found = hashlib.blake2b(digest_size=10)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()
