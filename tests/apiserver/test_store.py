"""The store: one version counter, durable before acknowledged, history for those who follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from mooring.apiserver.errors import Expired, StoreFailed, TooLargeVersion
from mooring.apiserver.store.log import Batch, MemoryLog, Record, Recovery
from mooring.apiserver.store.object_store import RESUME_S, Store, decode

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def no_fields(resource: str, obj: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


def thing(uid: str = "u", **data: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "data": data}


def names(store: Store, version: int | None = None) -> list[str]:
    return [item.key[1] for item in store.list("things", version)]


class SlowLog:
    """A log whose commits wait until they are let through, or fail."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None
        self.lies = False
        """Whether what fails is durable all the same."""
        self.inner = MemoryLog()

    def append(self, batch: Batch) -> Awaitable[None]:
        return self._append(batch)

    async def _append(self, batch: Batch) -> None:
        await self.gate.wait()
        if self.failure is None or self.lies:
            self.batches.append(batch)
            self.inner.append(batch)
        if self.failure is not None:
            raise self.failure

    async def resume(self, after: int) -> Sequence[Record]:
        if self.failure is not None:
            raise self.failure
        return await self.inner.resume(after)

    def recover(self) -> Recovery:
        return Recovery([], 0)

    def close(self) -> None:
        pass


def test_versions_rise_over_all_resources(run: Run) -> None:
    async def story() -> None:
        store = Store(MemoryLog(), no_fields)
        first = await store.write("things", ("", "a"), thing())
        second = await store.write("others", ("", "a"), thing())
        gone = await store.remove("things", ("", "a"), decode(first.body))
        assert [first.version, second.version, gone.version] == [1, 2, 3]
        assert decode(second.body)["metadata"]["resourceVersion"] == "2"
        assert store.version == 3

    run(story())


def test_a_write_is_seen_only_when_it_is_durable(run: Run) -> None:
    async def story() -> None:
        log = SlowLog()
        store = Store(log, no_fields)
        cursor = store.watch("things", 0)
        write = store.write("things", ("", "a"), thing())
        await asyncio.sleep(0)
        assert store.get("things", ("", "a")) is None
        assert cursor.take() == []
        assert store.version == 0
        assert store.head("things", ("", "a")) is not None
        log.gate.set()
        item = await write
        assert store.get("things", ("", "a")) is item
        assert [change.type for change in cursor.take()] == ["ADDED"]

    run(story())


def test_writes_that_arrive_during_a_commit_share_the_next_one(run: Run) -> None:
    async def story() -> None:
        log = SlowLog()
        store = Store(log, no_fields)
        first = [store.write("things", ("", name), thing()) for name in "ab"]
        await asyncio.sleep(0)
        later = [store.write("things", ("", name), thing()) for name in "cde"]
        log.gate.set()
        await asyncio.gather(*first, *later)
        assert [len(batch.records) for batch in log.batches] == [2, 3]

    run(story())


def test_a_later_write_is_computed_from_the_one_under_way(run: Run) -> None:
    async def story() -> None:
        log = SlowLog()
        store = Store(log, no_fields)
        created = store.write("things", ("", "a"), thing())
        removed = store.remove("things", ("", "a"), thing())
        assert store.head("things", ("", "a")) is None
        assert store.heads("things") == []
        log.gate.set()
        await asyncio.gather(created, removed)
        assert [change.type for change in store.watch("things", 0).take()] == ["ADDED", "DELETED"]
        assert store.head("things", ("", "a")) is None

    run(story())


def test_after_a_failed_commit_nothing_is_written_until_the_log_resumes(run: Run) -> None:
    """No room (finding: 503 for ever, also when there is room again)."""

    async def story() -> None:
        log = SlowLog()
        store = Store(log, no_fields)
        log.gate.set()
        await store.write("things", ("", "kept"), thing())
        log.failure = OSError("disk full")
        write = store.write("things", ("", "a"), thing())
        with pytest.raises(StoreFailed, match="disk full"):
            await write
        assert store.trouble == "disk full"
        assert store.get("things", ("", "a")) is None
        assert store.get("things", ("", "kept")) is not None, "reads go on"
        await asyncio.sleep(10 * RESUME_S)
        with pytest.raises(StoreFailed):
            store.write("things", ("", "b"), thing())
        with pytest.raises(StoreFailed):
            await store.settled()
        log.failure = None
        await asyncio.sleep(2 * RESUME_S)
        assert store.trouble == ""
        assert store.get("things", ("", "a")) is None
        again = await store.write("things", ("", "a"), thing())
        assert again.version > 2, "a version is never used twice"
        assert [each.key[1] for each in Store(log.inner, no_fields).list("things")] == ["a", "kept"]
        await store.close()

    run(story())


def test_a_write_whose_failure_was_not_true_appears_when_the_log_resumes(run: Run) -> None:
    """Its outcome was unknown to the client; now it is known to all, and watchers are told of it."""

    async def story() -> None:
        log = SlowLog()
        store = Store(log, no_fields)
        log.gate.set()
        seen = store.watch("things", 0)
        log.failure, log.lies = OSError("the answer was lost"), True
        with pytest.raises(StoreFailed):
            await store.write("things", ("", "a"), thing())
        assert store.get("things", ("", "a")) is None
        log.failure, log.lies = None, False
        await asyncio.sleep(2 * RESUME_S)
        item = store.get("things", ("", "a"))
        assert item is not None
        assert item.version == 1
        assert [change.item.version for change in seen.take()] == [1]
        assert (await store.write("things", ("", "b"), thing())).version == 2

    run(story())


def test_a_caller_that_goes_away_does_not_undo_its_write(run: Run) -> None:
    async def story() -> None:
        log = SlowLog()
        store = Store(log, no_fields)
        write = store.write("things", ("", "a"), thing())
        await asyncio.sleep(0)
        write.cancel()
        log.gate.set()
        await store.settled()
        assert store.get("things", ("", "a")) is not None

    run(story())


def test_a_list_as_of_a_version_shows_what_was_there(run: Run) -> None:
    async def story() -> None:
        store = Store(MemoryLog(), no_fields)
        await store.write("things", ("", "a"), thing(n=1))
        await store.write("things", ("", "b"), thing())
        await store.write("things", ("", "a"), thing(n=2))
        await store.remove("things", ("", "b"), thing())
        await store.write("things", ("", "c"), thing())
        assert [names(store, version) for version in range(6)] == [
            [], ["a"], ["a", "b"], ["a", "b"], ["a"], ["a", "c"]
        ]  # fmt: skip
        assert decode(store.list("things", 2)[0].body)["data"] == {"n": 1}
        assert decode(store.list("things", 3)[0].body)["data"] == {"n": 2}

    run(story())


def test_the_window_is_bounded_and_what_left_it_is_expired(run: Run) -> None:
    async def story() -> None:
        store = Store(MemoryLog(), no_fields, window=3)
        for name in "abcdef":
            await store.write("things", ("", name), thing())
        assert store.floor == 3
        assert len(store.watch("things", 3).take()) == 3
        with pytest.raises(Expired):
            store.watch("things", 2)
        with pytest.raises(Expired):
            store.list("things", 2)
        with pytest.raises(TooLargeVersion):
            store.watch("things", 7)

    run(story())


def test_the_window_is_bounded_in_bytes_too(run: Run) -> None:
    async def story() -> None:
        store = Store(MemoryLog(), no_fields, window_bytes=3000)
        for name in "abcdef":
            await store.write("things", ("", name), thing(text="x" * 1000))
        assert store.floor >= 3
        assert names(store) == list("abcdef")

    run(story())


def test_a_reader_that_is_too_slow_is_told_so(run: Run) -> None:
    async def story() -> None:
        store = Store(MemoryLog(), no_fields, window=2)
        cursor = store.watch("things", 0)
        for name in "abc":
            await store.write("things", ("", name), thing())
        with pytest.raises(Expired):
            cursor.take()

    run(story())


def test_a_restart_keeps_objects_versions_and_history(run: Run) -> None:
    async def story() -> None:
        log = MemoryLog()
        store = Store(log, no_fields)
        await store.write("things", ("ns", "a"), thing(n=1))
        await store.write("things", ("ns", "a"), thing(n=2))
        await store.write("things", ("ns", "b"), thing())
        await store.remove("things", ("ns", "b"), thing())
        again = Store(log, no_fields)
        assert again.version == 4
        assert names(again) == ["a"]
        changes = [(change.type, change.item.version) for change in again.watch("things", 1).take()]
        assert changes == [("MODIFIED", 2), ("ADDED", 3), ("DELETED", 4)]
        assert (await again.write("things", ("ns", "c"), thing())).version == 5

    run(story())


def test_a_store_that_is_opened_again_keeps_no_more_history_than_its_window(run: Run) -> None:
    async def story() -> None:
        log = MemoryLog()
        store = Store(log, no_fields, window=10)
        for n in range(6):
            await store.write("things", ("", "a"), thing(n=n))
        again = Store(log, no_fields, window=2)
        assert again.version - again.floor == 2
        assert names(again, again.floor) == ["a"]
        with pytest.raises(Expired):
            again.list("things", again.floor - 1)

    run(story())


def test_a_log_forgets_what_no_reader_can_ask_for(run: Run) -> None:
    async def story() -> None:
        log = MemoryLog()
        store = Store(log, no_fields, window=2)
        for n in range(50):
            await store.write("things", ("", "a"), thing(n=n))
        await store.write("things", ("", "b"), thing())
        await store.remove("things", ("", "b"), thing())
        for n in range(3):
            await store.write("things", ("", "c"), thing(n=n))
        assert len(list(log.recover().records)) <= 6
        again = Store(log, no_fields, window=2)
        assert names(again) == ["a", "c"]
        assert decode(again.list("things")[0].body)["data"] == {"n": 49}
        assert again.version == store.version
        assert again.floor <= store.floor

    run(story())
