"""What every mechanism must hold, as functions that each mechanism's own tests call with a device that is
real to it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mooring.fence.interface import Answer, Look, Mechanism, Order, Outcome, State


@dataclass
class Case:
    """A mechanism, an order for a target that is open, and what is true of it. `works`: whether the target
    still does what a fence is to stop; `elsewhere`: the same of a target that is not meant."""

    mechanism: Mechanism
    order: Order
    works: Callable[[], Awaitable[bool]]
    elsewhere: Callable[[], Awaitable[bool]]
    secrets: list[str] = field(default_factory=list[str])


async def a_fence_stops_it_and_an_unfence_lets_it_go_on(case: Case) -> None:
    mechanism, order = case.mechanism, case.order
    assert mechanism.problems(order) == []
    assert (await mechanism.look(order)).state is State.OPEN
    assert await case.works()
    answer = await mechanism.fence(order)
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN), answer
    assert answer.evidence
    assert not await case.works()
    assert await case.elsewhere()
    assert (await mechanism.look(order)).state is State.SHUT
    assert (await mechanism.unfence(order)).outcome is Outcome.UNFENCED
    assert (await mechanism.look(order)).state is State.OPEN


async def the_same_order_again_does_no_more(case: Case) -> None:
    for _ in range(2):
        answer = await case.mechanism.fence(case.order)
        assert answer.outcome is Outcome.FENCED, answer
    assert answer.before is State.SHUT
    assert not await case.works()
    assert await case.elsewhere()
    assert (await case.mechanism.unfence(case.order)).outcome is Outcome.UNFENCED
    assert (await case.mechanism.unfence(case.order)).outcome is Outcome.UNFENCED


async def a_fence_that_is_cut_short_can_be_ordered_again(case: Case, moments: Iterable[float]) -> None:
    """Cancelled after each of these times, as by a crash of the caller; the last order is let end."""
    for moment in moments:
        task = asyncio.create_task(case.mechanism.fence(case.order))
        await asyncio.wait({task}, timeout=moment)
        task.cancel()
        await asyncio.wait({task})
        assert offspring() == []
    assert (await case.mechanism.fence(case.order)).outcome is Outcome.FENCED
    assert not await case.works()
    assert (await case.mechanism.unfence(case.order)).outcome is Outcome.UNFENCED


async def a_deadline_is_unknown_and_leaves_nothing(case: Case, deadline: float) -> None:
    """`case` is of a device that does not answer."""
    began = time.monotonic()
    answer = await case.mechanism.fence(replace(case.order, deadline=deadline))
    assert answer.outcome is Outcome.UNKNOWN, answer
    assert time.monotonic() - began < deadline + 2
    assert offspring() == []


async def another_target_is_left_alone(case: Case) -> None:
    """`case.order` names a target that the device is not of."""
    answer = await case.mechanism.fence(case.order)
    assert (answer.outcome, answer.code) == (Outcome.NOT_FENCED, "WrongTarget"), answer
    assert await case.works()
    assert await case.elsewhere()


async def a_look_changes_nothing(case: Case) -> None:
    for _ in range(2):
        assert (await case.mechanism.look(case.order)).state is State.OPEN
    assert await case.works()


async def no_secret_is_seen(case: Case) -> None:
    """In no command line of this machine while it runs, and in nothing that is said."""
    seen, done = set[str](), asyncio.Event()

    async def watch() -> None:
        while not done.is_set():
            seen.update(await asyncio.to_thread(lambda: set(_command_lines())))
            await asyncio.sleep(0.005)

    watcher = asyncio.create_task(watch())
    look = await case.mechanism.look(case.order)
    answer = await case.mechanism.fence(case.order)
    again = await case.mechanism.unfence(case.order)
    done.set()
    await watcher
    for text in (*seen, *_said(look), *_said(answer), *_said(again), repr(case.order)):
        for secret in case.secrets:
            assert secret not in text, text


def _said(what: Look | Answer) -> list[str]:
    facts = what.identity if isinstance(what, Look) else what.evidence
    return [what.message, *facts, *facts.values(), repr(what)]


def _command_lines() -> Iterable[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue


def offspring() -> list[str]:
    """Processes that an order of this process has started and that still run."""
    mark = f"MOORING_FENCE_ORDER={os.getpid()}-".encode()
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue
    return found
