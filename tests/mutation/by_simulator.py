"""Plays seeds with a mutant in, as `mooring simulate run` does, until an invariant is violated.

Each mutant has a fresh fork of this process, which has loaded what others wrote and nothing of Mooring. The
fork puts the mutant in the place of its module, imports the simulator, and plays one seed after the other.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
from tests.mutation import forks, overlay
from tests.mutation.mutants import Mutant

SEED_S = 30.0
"""So much of a processor's time may one seed take; most take less than a second."""
WAIT_S = 900.0
"""So long is a fork waited for that sleeps, or that has no processor, in one seed."""
MEMORY = 4 << 30
"""Bytes that a fork may have."""
UNUSABLE = ("import", "crash", "hang")


class Played(msgspec.Struct):
    """What came of one seed: what was violated, or what was raised."""

    seed: int
    invariants: list[str]
    message: str = ""


class BySimulator(msgspec.Struct):
    """How a mutant fared. `how`: violated, import (it cannot be imported), crash (the run itself ended by an
    error), hang (a seed takes too long), or "" if it survived. `seeds`: how many of those from the base seed
    on it took, those that do not execute it included; `played`: how many were played."""

    how: str = ""
    seeds: int = 0
    played: int = 0
    invariants: list[str] = []
    message: str = ""
    seconds: float = 0.0

    @property
    def killed(self) -> bool:
        return bool(self.how)


def play_one(seed: int) -> Played:
    """Plays a seed with whatever is imported; as `mooring simulate run --seed SEED --seeds 1`."""
    from mooring.simulation.cluster.scenario import DEFAULT
    from mooring.simulation.search import searches

    summary = searches.random(range(seed, seed + 1), DEFAULT).run(workers=1)
    gc.collect()
    if not summary.failed:
        return Played(seed, [])
    failed = summary.failed[0]
    return Played(seed, failed.invariants, failed.violations[0])


def imported() -> None:
    """Imports all that a run needs; garbage is collected between runs alone, as in a campaign."""
    import structlog

    structlog.configure(cache_logger_on_first_use=True)
    for name in (
        "mooring.cli.simulate",
        "mooring.simulation.cluster.scenario",
        "mooring.simulation.search.searches",
    ):
        importlib.import_module(name)
    gc.disable()
    gc.collect()
    gc.freeze()


def warm() -> None:
    """Imports what others wrote of all that a run imports, and nothing of Mooring. What these modules are is
    found out in a fork that plays one seed."""

    def find(writing: int) -> None:
        imported()
        play_one(0)
        others = [
            name for name in sys.modules if name.partition(".")[0] not in ("mooring", "tests", "__main__")
        ]
        os.write(writing, "\n".join(others).encode())

    pid, reading = forks.begin(find)
    with open(reading) as file:
        names = file.read().split()
    os.waitpid(pid, 0)
    for name in names:
        with suppress(ImportError):  # what is made while others run, and is no module of a file
            importlib.import_module(name)
    ours = [name for name in sys.modules if name.partition(".")[0] == "mooring"]
    assert not ours, f"what is to be mutated is imported already: {ours}"
    gc.collect()
    gc.freeze()


def by_simulator(
    mutant: Mutant, base: int, most: int, executing: Sequence[int], *, seed_s: float = SEED_S
) -> BySimulator:
    """Plays the mutant on those of `most` seeds from `base` on that execute it, until one is violated.
    `seed_s`: so many seconds of a processor may one take."""
    began = time.monotonic()
    pid, reading = forks.begin(lambda writing: _play_all(mutant, executing, seed_s, writing))
    verdict = BySimulator(seeds=most)
    try:
        for line in _lines(reading):
            _note(verdict, msgspec.json.decode(line, type=Played), base)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except _TooLong as error:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        verdict.how, verdict.message, status = "hang", str(error), 0
    finally:
        os.close(reading)
    if status:
        verdict.how, verdict.message = "crash", f"exit status {status}"
    if status == -signal.SIGPROF:
        verdict.how, verdict.message = "hang", f"a seed took more than {seed_s:g} s of a processor"
    if verdict.how in ("hang", "crash") and verdict.seeds == most and verdict.played < len(executing):
        verdict.seeds = executing[verdict.played] - base + 1
    verdict.seconds = round(time.monotonic() - began, 2)
    return verdict


def _note(verdict: BySimulator, played: Played, base: int) -> None:
    if played.seed >= 0:
        verdict.played += 1
    if played.invariants:
        first = played.invariants[0]
        verdict.how = first if first in UNUSABLE else "violated"
        verdict.invariants, verdict.message = played.invariants, played.message[:300]
        verdict.seeds = max(played.seed - base, 0) + 1


class _TooLong(Exception):
    pass


def _lines(reading: int) -> Iterator[bytes]:
    """Each line as it comes. Raises _TooLong."""
    left = b""
    while True:
        if not select.select([reading], [], [], WAIT_S)[0]:
            raise _TooLong(f"nothing for {WAIT_S:g} s")
        data = os.read(reading, 1 << 16)
        if not data:
            return
        *lines, left = (left + data).split(b"\n")
        yield from lines


def _play_all(mutant: Mutant, seeds: Sequence[int], seed_s: float, writing: int) -> None:
    _limited(seed_s)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)

    def say(played: Played) -> None:
        os.write(writing, msgspec.json.encode(played) + b"\n")

    try:
        overlay.install(mutant.module, str(mutant.path), mutant.source())
        imported()
    except Exception as error:
        say(Played(-1, ["import"], repr(error)))
        return
    for seed in seeds:
        signal.setitimer(signal.ITIMER_PROF, seed_s)
        try:
            played = play_one(seed)
        except Exception as error:
            played = Played(seed, ["crash"], repr(error))
        say(played)
        if played.invariants:
            return


def _limited(seed_s: float) -> None:
    """The processor's time is limited by a signal that ends the process, memory by the kernel."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seed_s)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
