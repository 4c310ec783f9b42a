"""What a store shows: the newest states, lists now and in the past, and how far back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from noted_log import A, B, C, no_fields, some, thing

from mooring.apiserver.errors import Expired, TooLargeVersion
from mooring.apiserver.store.log import Batch, MemoryLog
from mooring.apiserver.store.object_store import Store, decode
from mooring.apiserver.work_limit import TooMuch, limited

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_heads_are_the_newest_states_durable_or_not(run: Run):
    async def story() -> None:
        store = await some(MemoryLog())
        await store.write("others", A, thing())
        written = store.write("things", C, thing())
        store.write("others", C, thing())
        store.remove("things", A, thing())
        newest = store.write("things", B, thing(n=1))
        assert sorted(each.version for each in store.heads("things")) == [4, 7]
        assert store.heads("none") == []
        head = store.head("things", B)
        assert head is not None
        assert head.version == 7
        assert store.head("things", A) is None
        await asyncio.gather(written, newest)
        assert [each.key for each in store.list("things")] == [B, C]

    run(story())


def test_who_waits_for_a_resource_is_woken_by_its_writes_and_not_by_those_of_others(run: Run):
    async def story() -> None:
        store = await some(MemoryLog())
        waiting = asyncio.create_task(store.watch("things", 2).changed())
        await store.write("others", A, thing())
        await asyncio.sleep(1)
        assert not waiting.done()
        await store.write("things", A, thing())
        await asyncio.sleep(1)
        assert waiting.done()

    run(story())


def test_nothing_is_kept_apart_of_a_write_that_is_durable(run: Run):
    """What is being committed is kept beside what is stored: for as long as a process runs, it would grow."""

    async def story() -> None:
        store = await some(MemoryLog())
        await store.remove("things", A, thing())
        assert store._heads == {}

    run(story())


@pytest.mark.parametrize(
    ("metadata", "labels"), [({}, {}), ({"labels": None}, {}), ({"labels": {"a": "b"}}, {"a": "b"})]
)
def test_an_object_is_selected_by_its_labels_of_which_it_may_have_none(
    run: Run, metadata: dict[str, Any], labels: dict[str, str]
):
    async def story() -> None:
        store = Store(MemoryLog(), no_fields)
        item = await store.write("things", A, {"metadata": {"uid": "u", **metadata}})
        assert (item.key, item.uid, item.version, item.labels) == (A, "u", 1, labels)

    run(story())


def test_objects_are_listed_by_namespace_and_name_and_those_of_a_kind_alone(run: Run):
    async def story() -> None:
        store = Store(MemoryLog(), no_fields)
        for key in (("b", "a"), ("a", "z"), ("", "x"), ("a", "c")):
            await store.write("things", key, thing())
        assert [each.key for each in store.list("things")] == [("", "x"), ("a", "c"), ("a", "z"), ("b", "a")]
        await store.write("things", ("a", "d"), thing())
        await store.remove("things", ("", "x"), thing())
        assert [each.key for each in store.list("things")] == [("a", "c"), ("a", "d"), ("a", "z"), ("b", "a")]
        assert [each.key for each in store.list("things", 3)] == [("", "x"), ("a", "z"), ("b", "a")]
        assert store.list("others") == []

    run(story())


@pytest.mark.parametrize("read", ["list", "watch"])
def test_the_past_is_readable_from_the_floor_on_and_the_future_not_at_all(run: Run, read: str):
    async def story() -> None:
        store = await some(MemoryLog(), window=1)
        asked = getattr(store, read)
        asked("things", 1)
        asked("things", 2)
        with pytest.raises(Expired, match=r"0 \(1\)"):
            asked("things", 0)
        with pytest.raises(TooLargeVersion):
            asked("things", 3)
        store.check_not_future(2)
        with pytest.raises(TooLargeVersion):
            store.check_not_future(3)

    run(story())


def test_a_window_of_bytes_holds_as_many_changes_as_fit_and_the_last_in_any_case(run: Run):
    async def story() -> None:
        store = await some(MemoryLog())
        size = sum(len(each.body) for each in store.list("things"))
        fits = await some(MemoryLog(), window_bytes=size)
        assert fits.floor == 0
        tight = await some(MemoryLog(), window_bytes=size - 1)
        assert tight.floor == 1
        tiny = await some(MemoryLog(), window_bytes=1)
        assert tiny.floor == 1
        for floor in (1, 2, 3):
            await fits.write("things", C, thing())
            assert fits.floor == floor, "what has left the window counts no more"

    run(story())


def test_a_store_of_which_all_history_is_forgotten_goes_on_after_its_floor(run: Run):
    """No version is used twice, also when the newest object is gone."""

    async def story() -> None:
        log = MemoryLog()
        log.append(Batch([], [], 7))
        store = Store(log, no_fields)
        assert (store.version, store.floor) == (7, 7)
        assert (await store.write("things", A, thing())).version == 8

    run(story())


def test_an_object_that_is_older_than_the_floor_is_there_and_no_change(run: Run):
    async def story() -> None:
        log = MemoryLog()
        first = await some(log, window=1)
        await first.write("others", C, thing())
        await first.write("others", C, thing())
        store = Store(log, no_fields)
        assert [each.version for each in store.list("things")] == [1, 2]
        assert store.floor == 2
        assert store.watch("things", 2).take() == []
        assert [each.item.version for each in store.watch("others", 2).take()] == [3, 4]

    run(story())


def test_unless_told_otherwise_ten_thousand_changes_are_readable(run: Run):
    async def story() -> None:
        store = Store(MemoryLog(), no_fields)
        for _ in range(2):
            assert store.floor == 0
            await asyncio.gather(*(store.write("things", A, thing()) for _ in range(5000)))
        assert store.floor == 0
        await store.write("things", A, thing())
        assert store.floor == 1

    run(story())


def test_unless_told_otherwise_32_mebibytes_of_changes_are_readable(run: Run):
    async def story() -> None:
        store, mebibyte = Store(MemoryLog(), no_fields), 1024 * 1024
        body = (await store.write("things", A, thing(text=""))).body
        text = "x" * (mebibyte - len(body))
        store = Store(MemoryLog(), no_fields)
        for version in range(1, 33):
            written = await store.write("things", A, thing(text=text[: -1 if version > 9 else None]))
            assert len(written.body) == mebibyte
        assert store.floor == 0
        await store.write("things", A, thing())
        assert store.floor == 1

    run(story())


def test_reading_an_object_is_work_that_grows_with_its_size():
    """A microsecond for eight bytes: a client that makes a server read much is answered elsewhere."""
    with limited(100):
        decode(b"%800d" % 1)
    with limited(99), pytest.raises(TooMuch):
        decode(b"%800d" % 1)
