"""Runs the unit tests that execute a mutant, fewest and fastest first, until one fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.mutation import overlay
from tests.mutation.measuring import OPTIONS
from tests.mutation.mutants import Mutant
from tests.mutation.rooms import ROOT

FIRST = 25
"""So many are run first, in a process of their own: most mutants need no more, and collecting is most of
it."""
RUN_S = 1800.0
"""So long may one process take before the mutant counts as one that hangs; each test has a limit, too."""
FAILED, NOTHING_RUN = 1, 5
"""Exit statuses of pytest; of all others but 0, the mutant kept the tests from being run."""


class ByTests(msgspec.Struct):
    """How a mutant fared. `how`: failed, error (tests cannot be run with it), hang, or "" if it survived.
    `tests`: how many execute it; `killer`: the first that failed."""

    how: str = ""
    tests: int = 0
    killer: str = ""
    seconds: float = 0.0

    @property
    def killed(self) -> bool:
        return bool(self.how)


def by_tests(mutant: Mutant, tests: Sequence[str]) -> ByTests:
    """Runs these tests with the mutant in."""
    began, verdict = time.monotonic(), ByTests(tests=len(tests))
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        changed = Path(folder) / "changed.py"
        changed.write_text(mutant.source())
        where = {overlay.MODULE: mutant.module, overlay.FILE: str(mutant.path), overlay.SOURCE: str(changed)}
        for some in (tests[:FIRST], tests[FIRST:]):
            if some and not verdict.killed:
                _run(verdict, some, where, Path(folder))
    verdict.seconds = round(time.monotonic() - began, 2)
    return verdict


def _run(verdict: ByTests, tests: Sequence[str], where: dict[str, str], folder: Path) -> None:
    names = folder / "tests"
    names.write_text("\n".join(each.removesuffix("::*") for each in tests))
    command = [sys.executable, "-m", "pytest", *OPTIONS, "-x", "-p", "tests.mutation.overlay", f"@{names}"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **where}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=RUN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        verdict.how = "hang"
        return
    if process.returncode not in (0, NOTHING_RUN):
        verdict.how = "failed" if process.returncode == FAILED else "error"
        found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
        verdict.killer = found[1] if found else output[-300:]
