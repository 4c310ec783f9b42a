"""The guarantees of the work queue, one by one and all together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mooring.kube.workqueue import QueueClosed, WorkQueue

Run = Callable[[Any], Any]


def test_a_key_added_often_is_handed_out_once(run: Run):
    async def story():
        queue = WorkQueue[str]()
        for _ in range(3):
            queue.add("a")
        assert await queue.get() == "a"
        assert len(queue) == 0

    run(story())


def test_who_takes_over_begins_with_what_was_added_last(run: Run):
    """Thousands of keys wait for a candidate that becomes the leader; those that changed in between have not
    been acted upon."""

    async def story():
        queue = WorkQueue[str]()
        for key in ("a", "b", "c", "a"):
            queue.add(key)
            await asyncio.sleep(0.01)
        queue.newest_first()
        assert [await queue.get() for _ in range(3)] == ["a", "c", "b"]

    run(story())


def test_a_key_added_while_it_is_worked_on_comes_back_once_when_it_is_done(run: Run):
    async def story():
        queue = WorkQueue[str]()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert await queue.get() == "b", "a is being worked on"
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    run(story())


def test_the_earlier_of_two_wishes_for_a_time_counts(run: Run):
    async def story():
        queue = WorkQueue[str]()
        began = asyncio.get_running_loop().time()
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 20)
        await queue.get()
        assert asyncio.get_running_loop().time() - began == 3
        queue.done("a")
        await asyncio.sleep(100)
        assert len(queue) == 0, "later wishes were for the same work"

    run(story())


def test_a_key_wanted_now_is_not_wanted_again_later(run: Run):
    async def story():
        queue = WorkQueue[str]()
        queue.add_after("a", 10)
        queue.add("a")
        queue.done(await queue.get())
        await asyncio.sleep(100)
        assert len(queue) == 0

    run(story())


def test_backoff_doubles_from_half_a_second_to_122_seconds_until_it_is_forgotten(run: Run):
    async def story():
        queue = WorkQueue[str]()
        delays = [queue.add_backoff("a") for _ in range(11)]
        assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]
        assert queue.add_backoff("b") == 0.5, "each key has its own"
        queue.forget("a")
        assert queue.add_backoff("a") == 0.5

    run(story())


def test_a_key_that_has_failed_for_days_still_comes_back_after_the_longest_backoff(run: Run):
    async def story():
        queue = WorkQueue[str]()
        delays = {queue.add_backoff("a") for _ in range(3000)}
        assert max(delays) == 122

    run(story())


def test_a_handler_that_raises_gets_its_key_back_after_backoff_and_success_ends_the_backoff(run: Run):
    async def story():
        queue = WorkQueue[str]()
        loop = asyncio.get_running_loop()
        times: list[float] = []

        async def handler(key: str) -> None:
            times.append(loop.time())
            if len(times) in (1, 2, 3, 5):
                raise RuntimeError("not yet")

        working = asyncio.create_task(queue.run(2, handler))
        queue.add("a")
        await asyncio.sleep(100)
        queue.add("a")
        await asyncio.sleep(100)
        assert times == [0, 0.5, 1.5, 3.5, 100, 100.5]
        queue.close()
        await working

    run(story())


def test_a_handler_that_asks_for_a_backoff_itself_each_time_gets_its_key_back_ever_more_seldom(run: Run):
    async def story():
        queue = WorkQueue[str]()
        loop = asyncio.get_running_loop()
        times: list[float] = []

        async def handler(key: str) -> None:
            times.append(loop.time())
            queue.add_backoff(key)

        working = asyncio.create_task(queue.run(2, handler))
        queue.add("a")
        await asyncio.sleep(10)
        assert times == [0, 0.5, 1.5, 3.5, 7.5]
        queue.close()
        await working

    run(story())


def test_no_more_keys_are_worked_on_at_once_than_there_are_workers(run: Run):
    async def story():
        queue = WorkQueue[int]()
        busy, most = 0, 0

        async def handler(key: int) -> None:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(1)
            busy -= 1

        working = asyncio.create_task(queue.run(3, handler))
        for key in range(10):
            queue.add(key)
        await asyncio.sleep(100)
        assert (busy, most, len(queue)) == (0, 3, 0)
        queue.close()
        await working

    run(story())


def test_close_lets_running_work_end_and_hands_out_nothing_more(run: Run):
    async def story():
        queue = WorkQueue[str]()
        ended: list[str] = []

        async def handler(key: str) -> None:
            await asyncio.sleep(5)
            ended.append(key)

        working = asyncio.create_task(queue.run(1, handler))
        for key in ("a", "b"):
            queue.add(key)
        queue.add_after("c", 1)
        await asyncio.sleep(0.1)
        queue.close()
        queue.add("d")
        await working
        assert ended == ["a"]
        with pytest.raises(QueueClosed):
            await queue.get()

    run(story())


def test_a_waiting_worker_that_is_cancelled_takes_no_wake_up_with_it(run: Run):
    async def story():
        queue = WorkQueue[str]()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a")
        first.cancel()
        async with asyncio.timeout(1):
            assert await second == "a"

    run(story())


KEYS = st.sampled_from("abcd")


class Queue(RuleBasedStateMachine):
    """Plays with a queue; `wanted` and `due` say who must still get work, whatever the queue thinks."""

    loop_class: type[asyncio.AbstractEventLoop]

    @initialize()
    def begin(self) -> None:
        self.loop = self.loop_class()
        self.queue = WorkQueue[str]()
        self.wanted: list[str] = []  # in the order in which they became ready
        self.again: set[str] = set()  # added while worked on
        self.working: list[str] = []
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def do(self, act: Callable[[], Any]) -> Any:
        async def inside() -> Any:
            return act()

        return self.loop.run_until_complete(inside())

    def want(self, key: str) -> None:
        self.due.pop(key, None)
        if key in self.working:
            self.again.add(key)
        elif key not in self.wanted:
            self.wanted.append(key)

    def want_after(self, key: str, seconds: float) -> None:
        due = self.loop.time() + seconds
        self.due[key] = min(due, self.due.get(key, due))

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.do(lambda: self.queue.add(key))
        self.want(key)

    @rule(key=KEYS, seconds=st.integers(1, 60))
    def add_after(self, key: str, seconds: int) -> None:
        self.pass_time(1e-5)  # no two at the very same moment
        self.do(lambda: self.queue.add_after(key, seconds))
        self.want_after(key, seconds)

    @rule(key=KEYS)
    def add_backoff(self, key: str) -> None:
        self.pass_time(1e-5)
        delay = self.do(lambda: self.queue.add_backoff(key))
        assert delay == min(0.5 * 2 ** self.failures.get(key, 0), 122)
        self.failures[key] = self.failures.get(key, 0) + 1
        self.want_after(key, delay)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.do(lambda: self.queue.forget(key))
        self.failures.pop(key, None)

    @precondition(lambda self: self.wanted)
    @rule()
    def take(self) -> None:
        key = self.loop.run_until_complete(asyncio.wait_for(self.queue.get(), 0.001))
        assert key not in self.working, "two workers for one key"
        assert key == self.wanted.pop(0), "first come, first served"
        self.working.append(key)
        self.pass_time(0)

    @precondition(lambda self: self.working)
    @rule(which=st.integers(0, 3))
    def done(self, which: int) -> None:
        key = self.working.pop(which % len(self.working))
        self.do(lambda: self.queue.done(key))
        if key in self.again:
            self.again.discard(key)
            self.wanted.append(key)

    @rule(seconds=st.sampled_from([0, 0.3, 1, 7, 70]))
    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        for key, due in sorted(self.due.items(), key=lambda item: item[1]):
            if due <= self.loop.time():
                self.want(key)

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        assert len(self.queue) == len(self.wanted) + len(self.again)

    def teardown(self) -> None:
        try:
            self.work_until_nothing_is_left()
        finally:
            self.loop.close()

    def work_until_nothing_is_left(self) -> None:
        while self.working:
            self.done(0)
        self.pass_time(1000)
        while self.wanted:
            self.take()
            self.done(0)
        assert len(self.queue) == 0


def test_whatever_is_done_to_a_queue_one_worker_a_key_and_nothing_lost(run: Run):
    async def loop_class() -> type[asyncio.AbstractEventLoop]:
        return type(asyncio.get_running_loop())

    Queue.loop_class = run(loop_class())
    run_state_machine_as_test(
        Queue, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
