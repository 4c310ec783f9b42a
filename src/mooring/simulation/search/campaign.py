"""Plays many runs, on all processors, and sums up what came of them.

Each processor has one worker, a fresh process that warms up once and stays. A campaign whose progress is kept
(`saved`) goes on where it was stopped.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

import msgspec
import structlog

from mooring.simulation.cluster.plan import Plan
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.run import play
from mooring.simulation.search.progress import SavedProgress
from mooring.simulation.search.summary import Summary

BATCH = 4
"""So many runs are one piece of work."""
PR_SET_PDEATHSIG = 1
WARM_UP = Scenario(nodes=1, sets={"warm": 1}, minutes=1, faults=0, actions=0)


class Job(msgspec.Struct, frozen=True):
    """A run to be played: its seed, and a plan or choices other than the seed's own."""

    seed: int
    plan: Plan | None = None
    choices: dict[int, int] | None = None


Batch = list[Job]
T = TypeVar("T")


def seeds_in_batches(seeds: range) -> Iterator[Batch]:
    """The runs of these seeds, as they are."""
    return in_batches(Job(seed) for seed in seeds)


def in_batches(members: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """Pieces of work of that size."""
    left = iter(members)
    while batch := [*islice(left, size)]:
        yield batch


def play_batch(batch: Batch, scenario: Scenario) -> Summary:
    """What came of these runs."""
    summary = Summary()
    for job in batch:
        outcome = play(job.seed, scenario, plan=job.plan, choices=job.choices)
        outcome.choices = job.choices
        gc.collect()
        summary.note(outcome)
        summary.planned(outcome.plan)
    return summary


def campaign(
    batches: Iterable[list[T]],
    scenario: Scenario,
    *,
    work: Callable[[list[T], Scenario], Summary],
    workers: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    saved: SavedProgress | None = None,
) -> Summary:
    """Does the `work` of all batches but those that are done already by `saved`. `progress` gets the number
    of members that were done since its last call."""
    summary, began = saved.so_far() if saved else Summary(), time.perf_counter()
    before = summary.seconds

    def left() -> Iterator[tuple[int, list[T]]]:
        for number, batch in enumerate(batches):
            if saved is None or not saved.done(number):
                yield number, batch
            else:
                progress(len(batch))

    try:
        for number, size, part in _played(
            left(), partial(_timed, work, scenario), workers or os.cpu_count() or 1
        ):
            summary.add(part)
            summary.seconds = before + time.perf_counter() - began
            if saved is not None:
                saved.note(number, summary)
            progress(size)
    finally:
        if saved is not None:
            saved.write()
    return summary


def _timed(work: Callable[[list[T], Scenario], Summary], scenario: Scenario, batch: list[T]) -> Summary:
    began = time.process_time()
    summary = work(batch, scenario)
    summary.busy = time.process_time() - began
    return summary


def _played(
    batches: Iterator[tuple[int, list[T]]], work: Callable[[list[T]], Summary], workers: int
) -> Iterator[tuple[int, int, Summary]]:
    """The number of each batch, its size, and what came of it."""
    if workers == 1:
        with _collected_between_runs():
            yield from ((number, len(batch), work(batch)) for number, batch in batches)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_warm_up) as pool:
        try:
            yield from _handed_out(pool, batches, work, workers * 2)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _handed_out(
    pool: ProcessPoolExecutor,
    batches: Iterator[tuple[int, list[T]]],
    work: Callable[[list[T]], Summary],
    most: int,
) -> Iterator[tuple[int, int, Summary]]:
    """Never more than so many batches at a time."""
    pending: dict[Future[Summary], tuple[int, int]] = {}
    while True:
        for number, batch in islice(batches, most - len(pending)):
            pending[pool.submit(work, batch)] = (number, len(batch))
        if not pending:
            return
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            yield *pending.pop(future), future.result()


def _warm_up() -> None:
    """What every run needs is there, and no collection of garbage looks at it again; garbage is collected
    between runs alone. This process ends with its parent, and not before."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    structlog.configure(cache_logger_on_first_use=True)  # nothing but runs, which say nothing
    play(0, WARM_UP)
    _leave_what_is_there()


def _leave_what_is_there() -> None:
    """No collection of garbage looks at what is there now, and none begins by itself: each took as long as a
    good part of a run."""
    gc.disable()
    gc.collect()
    gc.freeze()


@contextmanager
def _collected_between_runs() -> Generator[None]:
    """As in a worker, in the process that asks, unless that does so itself; afterwards as before."""
    if not gc.isenabled():
        yield
        return
    _leave_what_is_there()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()
