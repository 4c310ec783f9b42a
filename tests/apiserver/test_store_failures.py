"""A commit that fails: what fails with it, and what comes of it when the log has resumed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest
from noted_log import A, B, C, NotedLog, SlowLog, no_fields, some, thing
from structlog.testing import capture_logs

from mooring.apiserver.errors import StoreFailed
from mooring.apiserver.store.log import Batch, Record
from mooring.apiserver.store.object_store import RESUME_S, Store

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_what_a_failed_commit_was_to_forget_is_forgotten_with_the_next(run: Run):
    async def story() -> None:
        log = NotedLog()
        store = await some(log, window=2)
        await store.write("things", A, thing())
        await store.write("things", A, thing())
        await store.write("things", A, thing())  # 5; forgets 3, so 1
        log.failure = OSError("disk full")
        with pytest.raises(StoreFailed):
            await store.write("things", A, thing())
        log.failure = None
        await asyncio.sleep(2 * RESUME_S)
        await store.write("things", A, thing())
        assert list(log.batches[-1].forgotten) == [1]

    run(story())


def test_a_write_of_a_failed_commit_is_not_what_the_next_one_is_computed_from(run: Run):
    async def story() -> None:
        log = NotedLog()
        store = await some(log)
        log.failure = OSError("disk full")
        failed = [store.write("things", A, thing(n=1)), store.remove("things", B, thing())]
        waiting = store.write("others", A, thing())
        for each in (*failed, waiting):
            with pytest.raises(StoreFailed, match="whether the last ones were is not known: disk full"):
                await each
        assert store.head("things", A) == store.get("things", A)
        assert {each.key for each in store.heads("things")} == {A, B}
        log.failure = None
        await asyncio.sleep(2 * RESUME_S)
        assert (await store.write("things", C, thing())).version == 6
        assert [each.version for each in log.recover().records] == [1, 2, 6]

    run(story())


def test_a_write_that_waits_for_the_next_commit_fails_with_the_one_under_way_and_for_good(run: Run):
    """It may have been computed from what has failed."""

    async def story() -> None:
        log = SlowLog()
        log.failure = OSError("disk full")
        store = Store(log, no_fields)
        first = store.write("things", A, thing())
        await asyncio.sleep(0.5)
        second = store.write("things", A, thing())
        for each in (first, second):
            with pytest.raises(StoreFailed):
                await each
        log.failure = None
        await asyncio.sleep(2 * RESUME_S)
        await store.write("things", B, thing())
        assert [each.key for each in store.list("things")] == [B]
        assert [each.version for each in log.recover().records] == [3]

    run(story())


def test_of_a_failed_commit_all_are_told_though_one_of_them_has_gone_away(run: Run):
    async def story() -> None:
        log = SlowLog()
        log.failure = OSError("disk full")
        store = Store(log, no_fields)
        gone, stays = (store.write("things", key, thing()) for key in (A, B))
        await asyncio.sleep(0.5)
        gone.cancel()
        with pytest.raises(StoreFailed):
            await stays
        await store.close()

    run(story())


def test_a_failure_that_nothing_waits_for_is_no_error_of_the_process(run: Run):
    """The request that waited was cancelled: asyncio would log that its outcome was never looked at."""

    async def story() -> None:
        unseen: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
        log = NotedLog()
        log.failure = OSError("disk full")
        store = Store(log, no_fields)
        store.write("things", A, thing())
        await asyncio.sleep(0.5)
        log.failure = None
        await asyncio.sleep(2 * RESUME_S)
        gc.collect()
        assert (store.trouble, unseen) == ("", [])

    run(story())


def test_a_commit_that_is_cancelled_fails_its_writes_and_nothing_is_resumed(run: Run):
    """So ends a process: nothing is begun any more."""

    class Endless(NotedLog):
        def append(self, batch: Batch) -> Awaitable[None]:
            return asyncio.sleep(3600)

    async def story() -> None:
        log = Endless()
        store = Store(log, no_fields)
        write = store.write("things", A, thing())
        await asyncio.sleep(1)
        commit = store._flush
        assert commit is not None
        commit.cancel()
        with pytest.raises(StoreFailed):
            await write
        await asyncio.sleep(5)
        assert (commit.cancelled(), log.resumed) == (True, 0)

    run(story())


def test_what_was_durable_after_all_is_told_to_those_who_wait_for_it(run: Run):
    async def story() -> None:
        log = NotedLog()
        store = await some(log, window=3)
        cursor, elsewhere = store.watch("things", 2), store.watch("others", 2)
        waiting, other = asyncio.create_task(cursor.changed()), asyncio.create_task(elsewhere.changed())
        log.failure, log.keeps = OSError("no answer"), True
        lost = [store.write("things", key, thing()) for key in (A, C)]
        await asyncio.gather(*lost, return_exceptions=True)
        log.failure = None
        await asyncio.sleep(2 * RESUME_S)
        await waiting
        assert [(each.type, each.item.version) for each in cursor.take()] == [("MODIFIED", 3), ("ADDED", 4)]
        assert not other.done()
        assert (store.version, store.floor) == (4, 1), "the window is as large as ever"
        other.cancel()

    run(story())


def test_a_log_that_does_not_resume_is_asked_again_each_second_and_told_of_when_it_says_something_new(
    run: Run,
):
    async def story() -> None:
        log = NotedLog()
        store = await some(log)
        log.failure = OSError("disk full")
        with pytest.raises(StoreFailed):
            await store.write("things", A, thing())
        await asyncio.sleep(5.5)
        log.failure = OSError("no disk")
        await asyncio.sleep(5)
        assert log.resumed == 10
        assert store.trouble == "no disk"
        log.failure = None
        await asyncio.sleep(10 * RESUME_S)
        assert (log.resumed, store.trouble) == (11, "")

    with capture_logs() as logged:
        run(story())
    assert [each["error"] for each in logged if each["log_level"] == "warning"] == ["OSError('no disk')"]


def test_a_store_that_is_closed_does_not_resume_its_log_any_more(run: Run):
    async def story() -> None:
        log = NotedLog()
        store = await some(log)
        log.failure = OSError("disk full")
        with pytest.raises(StoreFailed):
            await store.write("things", A, thing())
        await store.close()
        await asyncio.sleep(5 * RESUME_S)
        assert (log.resumed, log.closed) == (0, True)

    run(story())


def test_a_log_is_let_go_when_nothing_works_on_it_any_more(run: Run):
    class Slow(NotedLog):
        def __init__(self) -> None:
            super().__init__()
            self.done: list[str] = []

        async def resume(self, after: int) -> Sequence[Record]:
            try:
                await asyncio.sleep(3600)
            finally:
                self.done.append("resume")
            return []

        def close(self) -> None:
            self.done.append("close")

    async def story() -> None:
        log = Slow()
        store = await some(log)
        log.failure = OSError("disk full")
        with pytest.raises(StoreFailed):
            await store.write("things", A, thing())
        await asyncio.sleep(2)
        await store.close()
        assert log.done == ["resume", "close"]

    run(story())
