"""A known mutant is killed, a harmless change survives, and what never ends or cannot be imported is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.mutation import forks
from tests.mutation.by_simulator import BySimulator, by_simulator
from tests.mutation.by_tests import by_tests
from tests.mutation.mutants import Mutant, changed_lines
from tests.mutation.rooms import ROOT, SOURCE
from tests.mutation.source import Change, Source

HANDSHAKE = "controllers/attachdetach/handshake.py"
DECIDE = "controllers/attacher/decide.py"
TESTS = ["tests/controllers/attacher/test_decide.py::*"]
REPORT = "return await self.lists.report(record, locked=locked)"


def mutant(file: str, old: str, new: str) -> Mutant:
    """The module with one text, which it has once, replaced."""
    path = SOURCE / file
    source = Source(path, path.read_text())
    assert source.text.count(old) == 1
    start = source.bytes.index(old.encode())
    change = Change("test", start, start + len(old.encode()), new, (1, 1))
    return Mutant("name", "room", path, 1, change, "", *changed_lines(source, change))


def judge(file: str, old: str, new: str, seeds: list[int], seed_s: float) -> None:
    """What the other process does: prints how the mutant fares."""
    found = by_simulator(mutant(file, old, new), seeds[0], 20, seeds, seed_s=seed_s)
    print(msgspec.json.encode(found).decode())


def played(file: str, old: str, new: str, *seeds: int, seed_s: float = 600) -> BySimulator:
    """In a process of its own: this one may have imported what is to be changed."""
    program = f"from tests.mutation.test_judging import judge; judge{(file, old, new, [*seeds], seed_s)}"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return msgspec.json.decode(done.stdout, type=BySimulator)


LONG = (
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not os.environ.get("MOORING_SOAK"), reason="long; `make soak` plays it"),
)


def long(test: Callable[..., None]) -> Callable[..., None]:
    """A round that `make soak` plays."""
    for mark in LONG:
        test = mark(test)
    return test


def test_the_simulator_kills_a_mutant_and_says_how():
    found = played(HANDSHAKE, REPORT, "return True", 3, 4)
    assert (found.how, found.seeds, found.played) == ("violated", 1, 1)
    assert "L1" in found.invariants


@long
def test_a_seed_that_does_not_execute_a_mutant_counts_among_those_that_did_not_find_it():
    assert played(HANDSHAKE, REPORT, "return True", 3).seeds == 1
    found = played(HANDSHAKE, "REQUESTS = 32", "REQUESTS = 0", 3, 7)
    assert (found.seeds, found.played) == (1, 1)


def test_a_harmless_change_survives_all_seeds():
    found = played(HANDSHAKE, "REQUESTS = 32", "REQUESTS = 31", 3, 4)
    assert (found.how, found.seeds, found.played) == ("", 20, 2)


def test_what_cannot_be_imported_is_killed():
    found = played(HANDSHAKE, "REQUESTS = 32", "REQUESTS = NOWHERE", 3)
    assert (found.how, found.played) == ("import", 0)
    assert "NOWHERE" in found.message


@long
def test_what_never_ends_is_killed():
    found = played(HANDSHAKE, REPORT, "\n        while True: pass", 3, seed_s=5)
    assert (found.how, found.seeds) == ("hang", 1)


def test_the_tests_that_execute_a_mutant_kill_it_and_the_first_is_named():
    found = by_tests(mutant(DECIDE, "if record.status.attached:", "if not record.status.attached:"), TESTS)
    assert found.how == "failed"
    assert found.killer.startswith("tests/controllers/attacher/test_decide.py::test_")


def test_a_harmless_change_survives_the_tests():
    found = by_tests(mutant(DECIDE, "if finalizer is None:", "if not finalizer:"), TESTS)
    assert (found.how, found.tests) == ("", 1)


def test_a_module_that_breaks_the_tests_is_killed():
    found = by_tests(mutant(DECIDE, "if finalizer is None:", "if finalizer is None"), TESTS)
    assert found.how == "error"


def test_what_nothing_executes_survives():
    assert not by_tests(mutant(DECIDE, "if finalizer is None:", "if True:"), []).killed


def test_each_piece_of_work_has_a_fork_of_its_own():
    pids = [int(found) for _, found in forks.each([1, 2, 3], lambda _: str(os.getpid()).encode(), 2)]
    assert len({*pids, os.getpid()}) == 4


def test_work_that_fails_is_not_lost(capfd: pytest.CaptureFixture[str]):
    def fail(_: int) -> bytes:
        raise ValueError("what went wrong")

    with pytest.raises(forks.WorkFailed):
        list(forks.each([1], fail, 1))
    assert "what went wrong" in capfd.readouterr().err


@long
def test_a_round_of_a_handful_is_judged_by_both_and_can_be_gone_on_with(tmp_path: Path):
    command = [sys.executable, "-m", "tests.mutation", "--seed", "soak", "--count", "4", "--seeds", "10"]
    command += ["--rooms", "controllers/attacher", "--resume", str(tmp_path), "--workers", "2"]
    first = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert first.stdout.splitlines()[-1].startswith("killed ")
    assert first.stderr.count("[") >= 4
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.stdout == first.stdout
    assert "left]" not in again.stderr
