"""The loop owns time, order and chance, and lets nothing out."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from mooring.simulation.engine.event_loop import Actor, Deadlock, Escape, SimulationLoop, end
from mooring.simulation.engine.isolation import isolated
from mooring.simulation.engine.randomness import Choose, ReplayedOrder, SeededOrder, stream


def play(story: Coroutine[Any, Any, Any], choose: Choose | None = None, *actors: Actor) -> Any:
    loop = SimulationLoop(choose or ReplayedOrder({}))
    try:
        return loop.run_until_complete(story)
    finally:
        end(loop, list(actors))


async def race(seen: list[int]) -> None:
    async def run(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(number)

    await asyncio.gather(*(run(number) for number in range(5)))


def order(choose: Choose) -> list[int]:
    seen: list[int] = []
    play(race(seen), choose)
    return seen


def test_time_jumps_to_the_next_timer_and_stands_otherwise():
    async def story() -> tuple[float, float]:
        await asyncio.sleep(0)
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(1e6)
        return before, asyncio.get_running_loop().time()

    assert play(story()) == (0, 1e6)


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    assert order(SeededOrder(stream(1, "x"))) == order(SeededOrder(stream(1, "x")))
    assert order(SeededOrder(stream(1, "x"))) != order(SeededOrder(stream(2, "x")))


def test_without_choices_the_order_is_that_of_asyncio():
    assert order(ReplayedOrder({})) == [0, 1, 2, 3, 4] * 3


def test_a_run_is_repeated_from_its_choices():
    choose = SeededOrder(stream(7, "x"))
    seen = order(choose)
    assert order(ReplayedOrder(choose.taken)) == seen


def test_nothing_ready_and_no_timer_is_a_deadlock():
    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        play(story())


def test_a_halted_actor_runs_nothing_not_even_its_finally_and_goes_on_when_released():
    actor, seen = Actor("a"), list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("worked")
        finally:
            seen.append("finally")

    async def story() -> None:
        actor.start(work())
        await asyncio.sleep(0.5)
        actor.halted = True
        await asyncio.sleep(10)
        assert seen == []
        actor.resume()
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert seen == ["worked", "finally"]

    play(story(), None, actor)


def test_threads_sockets_and_entropy_are_refused_where_they_are_asked_for():
    async def story() -> None:
        with pytest.raises(Escape):
            asyncio.get_running_loop().run_in_executor(None, print)
        with pytest.raises(Escape):
            socket.socket()
        with pytest.raises(Escape):
            threading.Thread(target=print).start()

    with isolated():
        play(story())
