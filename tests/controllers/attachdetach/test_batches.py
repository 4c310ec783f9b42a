"""Changes that wait for one object are written together; a failed write fails for each
change that it carried."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mooring.controllers.attachdetach.batches import Batches

Run = Callable[[Any], Any]


class NoAnswer(ConnectionError):
    """What a write may fail with."""


class SlowWrite:
    """A write that takes a while, and records what it carried."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, tuple[str, ...]]] = []
        self.fails: set[str] = set()

    async def write(self, key: str, entries: Sequence[str]) -> list[str]:
        self.writes.append((key, tuple(entries)))
        await asyncio.sleep(0.01)
        if self.fails & set(entries):
            raise NoAnswer("no answer")
        return [entry.upper() for entry in entries]


def test_what_comes_while_a_write_is_under_way_goes_with_the_next(run: Run):
    async def story() -> None:
        writer = SlowWrite()
        batches = Batches(writer.write)
        found = await asyncio.gather(*(batches.through("n0", each) for each in "abcde"))
        assert found == list("ABCDE")
        assert writer.writes == [("n0", ("a",)), ("n0", ("b", "c", "d", "e"))] or writer.writes == [
            ("n0", tuple("abcde"))
        ]

    run(story())


def test_what_a_write_raises_reaches_all_that_it_carried_and_no_other(run: Run):
    async def story() -> None:
        writer = SlowWrite()
        writer.fails = {"c"}
        batches = Batches(writer.write)
        asked = [batches.through("n0", each) for each in "abc"] + [batches.through("n1", "d")]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert found[-1] == "D", "another node is not held up"
        carried = next(entries for key, entries in writer.writes if "c" in entries)
        for entry, result in zip("abc", found, strict=False):
            assert isinstance(result, ConnectionError) == (entry in carried)
        writer.fails.clear()
        assert await batches.through("n0", "c") == "C"

    run(story())


def test_a_burst_takes_few_writes(run: Run):
    async def story() -> int:
        writer = SlowWrite()
        batches = Batches(writer.write)

        async def later(number: int) -> None:
            await asyncio.sleep(number * 0.004)
            await batches.through("n0", str(number))

        await asyncio.gather(*(later(number) for number in range(250)))
        return len(writer.writes)

    assert run(story()) <= 10


def test_a_burst_that_is_spread_over_many_objects_takes_few_writes(run: Run):
    async def story() -> int:
        writer = SlowWrite()
        batches = Batches(writer.write)

        async def later(number: int) -> None:
            await asyncio.sleep(number * 0.004)
            await batches.through(f"n{number % 20}", str(number))

        await asyncio.gather(*(later(number) for number in range(1000)))
        return len(writer.writes)

    assert run(story()) <= 250


def test_a_change_that_comes_alone_is_written_at_once(run: Run):
    async def story() -> None:
        writer = SlowWrite()
        batches = Batches(writer.write)
        await batches.through("n0", "a")
        soon = asyncio.create_task(batches.through("n0", "b"))
        await asyncio.sleep(0)
        assert writer.writes[1:] == [("n0", ("b",))]
        await soon

    run(story())


def test_a_write_that_hangs_keeps_only_its_own_object_waiting(run: Run):
    async def story() -> None:
        never, writer = asyncio.Event(), SlowWrite()

        async def write(key: str, entries: Sequence[str]) -> list[str]:
            await (never.wait() if key == "stuck" else asyncio.sleep(0))
            return await writer.write(key, entries)

        batches = Batches(write)
        stuck = [asyncio.create_task(batches.through("stuck", str(number))) for number in range(100)]
        await asyncio.sleep(1)
        assert await batches.through("n0", "a") == "A"
        never.set()
        assert len(await asyncio.gather(*stuck)) == 100

    run(story())


def test_who_is_cancelled_while_writing_for_others_leaves_it_to_them(run: Run):
    async def story() -> None:
        writer = SlowWrite()
        batches = Batches(writer.write)
        first = asyncio.create_task(batches.through("n0", "a"))
        second = asyncio.create_task(batches.through("n0", "b"))
        await asyncio.sleep(0.005)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second == "B"

    run(story())


def test_what_was_written_with_the_change_of_one_who_is_cancelled_is_written_again(run: Run):
    async def story() -> None:
        writer = SlowWrite()
        batches = Batches(writer.write)
        first, second, third = (asyncio.create_task(batches.through("n0", each)) for each in "abc")
        await first
        await asyncio.sleep(0.015)
        second.cancel()
        assert await third == "C"
        assert writer.writes[1:] == [("n0", ("b", "c")), ("n0", ("b", "c"))]

    run(story())


def test_an_error_is_gone_when_those_who_waited_have_seen_it(run: Run):
    """The collector runs seldom: an error that holds itself would keep everything that was
    to be written in memory."""

    async def story() -> None:
        writer = SlowWrite()
        writer.fails = {"a", "b"}
        batches = Batches(writer.write)
        seen: list[weakref.ref[BaseException]] = []

        async def fails(entry: str) -> None:
            try:
                await batches.through("n0", entry)
            except NoAnswer as error:
                seen.append(weakref.ref(error))

        await asyncio.gather(fails("a"), fails("b"))
        await asyncio.sleep(0)
        assert [each() for each in seen] == [None, None]

    gc.disable()
    try:
        run(story())
    finally:
        gc.enable()


def test_what_comes_in_the_moment_that_is_given_to_it_goes_with_the_change_that_waits(run: Run):
    """The second of two changes waits for a third, of whatever object."""

    async def story() -> None:
        writer = SlowWrite()
        batches = Batches(writer.write)

        async def later(seconds: float, key: str, entry: str) -> None:
            await asyncio.sleep(seconds)
            await batches.through(key, entry)

        soon = (later(0, "n0", "a"), later(0.001, "n1", "b"), later(0.005, "n1", "c"))
        await asyncio.gather(*soon, later(0.015, "n1", "d"))
        assert writer.writes == [("n0", ("a",)), ("n1", ("b", "c")), ("n1", ("d",))]

    run(story())


def test_a_burst_however_large_is_written_after_half_a_second(run: Run):
    async def story() -> None:
        begun: list[float] = []

        async def write(key: str, entries: Sequence[str]) -> list[str]:
            begun.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0)
            return list(entries)

        batches = Batches(write)
        await asyncio.gather(*(batches.through("n0", str(number)) for number in range(100)))
        assert begun == [0.0, 0.5]

    run(story())


def test_no_more_than_thirty_two_writes_are_under_way_at_once(run: Run):
    async def story() -> None:
        busy = busiest = 0

        async def write(key: str, entries: Sequence[str]) -> list[str]:
            nonlocal busy, busiest
            busy += 1
            busiest = max(busy, busiest)
            await asyncio.sleep(1)
            busy -= 1
            return list(entries)

        batches = Batches(write)
        await asyncio.gather(*(batches.through(f"n{number}", "a") for number in range(100)))
        assert busiest == 32

    run(story())


def test_an_error_of_a_change_whose_caller_was_cancelled_is_not_complained_about(run: Run):
    """As asyncio does of an error that is never asked for."""

    async def story() -> None:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        writer = SlowWrite()
        writer.fails = {"b"}
        batches = Batches(writer.write)
        first, second, third = (asyncio.create_task(batches.through("n0", each)) for each in "abc")
        await first
        third.cancel()
        await asyncio.gather(second, third, return_exceptions=True)
        assert writer.writes[1:] == [("n0", ("b", "c"))]
        del first, second, third, batches
        gc.collect()
        assert complaints == []

    run(story())


def test_nothing_is_kept_of_an_object_whose_changes_are_written(run: Run):
    """Nodes come and go for months."""

    async def story() -> None:
        batches = Batches(SlowWrite().write)
        await asyncio.gather(*(batches.through(f"n{number}", "a") for number in range(3)))
        assert len(batches._waiting) == 0  # pyright: ignore[reportPrivateUsage]

    run(story())
