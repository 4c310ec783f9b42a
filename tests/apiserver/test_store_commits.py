"""Commits: what a log is given with each, and when a write is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from noted_log import A, B, C, NotedLog, SlowLog, no_fields, some, thing

from mooring.apiserver.store.log import Record
from mooring.apiserver.store.object_store import Store, decode

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_a_log_is_given_each_write_as_it_is_stored(run: Run):
    async def story() -> None:
        log = NotedLog()
        store = await some(log)
        await store.remove("things", B, thing(last=True))
        (first, _, last) = (batch.records[0] for batch in log.batches)
        item = store.get("things", A)
        assert item is not None
        assert first == Record(1, "things", "ns", "a", False, item.body)
        assert (last.version, last.name, last.deleted) == (3, "b", True)
        assert decode(last.body) == {
            "metadata": {"uid": "u", "resourceVersion": "3"},
            "data": {"last": True},
        }

    run(story())


def test_a_log_is_told_once_of_what_left_the_window(run: Run):
    """What a change replaced, and a deletion itself, no reader can ask for after that."""

    async def story() -> None:
        log = NotedLog()
        store = await some(log, window=2)
        await store.write("things", A, thing())  # 3, which replaces 1; forgets the making of a
        await store.remove("things", A, thing())  # 4, which replaces 3; forgets the making of b
        await store.write("things", C, thing())  # 5; forgets 3, so 1
        await store.write("things", C, thing())  # 6; forgets 4, so 3 and 4
        await store.write("things", C, thing())  # 7; forgets 5, the making of c
        assert [(list(each.forgotten), each.floor) for each in log.batches] == [
            ([], 0), ([], 0), ([], 0), ([], 1), ([], 2), ([1], 3), ([3, 4], 4)
        ]  # fmt: skip
        assert [each.version for each in log.recover().records] == [2, 5, 6, 7]

    run(story())


def test_a_store_that_is_closed_finishes_what_is_under_way_and_lets_its_log_go(run: Run):
    async def story() -> None:
        log = NotedLog()
        store = await some(log)
        write = store.write("things", C, thing())
        await store.close()
        assert (write.done(), log.closed) == (True, True)

    run(story())


def test_a_store_has_settled_when_all_that_was_proposed_is_durable(run: Run):
    async def story() -> None:
        store = await some(NotedLog())
        await store.settled()
        writes = [store.write("things", A, thing()), store.write("others", B, thing())]
        await store.settled()
        assert all(each.done() for each in writes)

    run(story())


def test_a_write_that_waits_stays_the_head_when_the_one_before_is_durable(run: Run):
    async def story() -> None:
        store = Store(SlowLog(), no_fields)
        first = store.write("things", A, thing())
        await asyncio.sleep(0.5)
        second = store.write("things", A, thing())
        item = await first
        assert store.get("things", A) is item
        head = store.head("things", A)
        assert head is not None
        assert head.version == 2
        assert store.head("things", A) is await second

    run(story())
