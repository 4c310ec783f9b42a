"""Second opinions about what the store answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opinions import objections
from tests.conftest import run_in_virtual_time

from mooring.apiserver import Request, Server
from mooring.apiserver.errors import BadRequest, Expired, NotFound, StoreFailed, TooLargeVersion
from mooring.apiserver.store.history import Item
from mooring.apiserver.store.log import Batch, Log, MemoryLog
from mooring.apiserver.store.object_store import Store
from mooring.simulation.checks.second_opinions import store
from mooring.simulation.checks.second_opinions.store import (
    of_a_head,
    of_a_list,
    of_a_refusal,
    of_a_removal,
    of_a_version,
    of_a_write,
    of_eviction,
    of_settling,
    of_skipping,
    of_the_future,
    takes_writes,
    under_way_at,
)
from mooring.simulation.parts.store_log import VolatileLog

SIZE = len('{"metadata":{"namespace":"default","name":"web","uid":"web","resourceVersion":"1"}}')
"""Of a pod."""
PODS, WEB, DB = "pods", ("default", "web"), ("default", "db")


class SlowLog(MemoryLog):
    """Each batch takes a second."""

    def append(self, batch: Batch) -> Awaitable[None]:  # type: ignore[override]
        super().append(batch)
        return asyncio.ensure_future(asyncio.sleep(1))


def fields(resource: str, obj: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


def pod(name: str = "web") -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name, "uid": name}}


def heard(
    story: Callable[[Store], Awaitable[None]],
    window: int = 4,
    window_bytes: int = 10_000,
    log: Log | None = None,
) -> list[str]:
    """What is objected to while a story goes on, in which a pod is written first."""

    async def whole() -> None:
        held = Store(log or SlowLog(), fields, window=window, window_bytes=window_bytes)
        await held.write(PODS, WEB, pod())
        await story(held)

    with objections(store.QUESTIONS) as found:
        run_in_virtual_time(whole())
    return found


steps = st.lists(
    st.tuples(st.sampled_from(["write", "remove", "wait", "read", "skip"]), st.sampled_from([WEB, DB])),
    max_size=20,
)


@given(steps, st.integers(1, 5), st.integers(1, 500))
def test_what_is_written_read_and_forgotten_is_not_objected_to(
    steps: list[tuple[str, tuple[str, str]]], window: int, window_bytes: int
) -> None:
    async def story(held: Store) -> None:
        reader = held.watch(PODS, held.version)
        for kind, key in steps:
            if kind == "write":
                held.write(PODS, key, pod(key[1]))
            elif kind == "remove" and held.head(PODS, key):
                held.remove(PODS, key, pod(key[1]))
            elif kind == "wait":
                await asyncio.sleep(1.5)
            elif kind == "skip":
                reader.skip()
            held.heads(PODS)
            for version in (None, 0, held.floor, held.version, held.version + 1):
                with suppress(Expired, TooLargeVersion):
                    held.list(PODS, version)
                    held.watch(PODS, version or 0)
        await held.settled()

    assert heard(story, window, window_bytes) == []


def test_a_version_that_is_not_above_all_is_objected_to() -> None:
    async def story(held: Store) -> None:
        done = held.write(PODS, DB, pod("db"))
        assert [*of_a_write(done, True, held, PODS, DB, {"metadata": {"resourceVersion": "2"}})]
        assert not [*of_a_write(done, True, held, PODS, DB, {"metadata": {"resourceVersion": "3"}})]

    assert heard(story) == []


def test_a_head_that_is_not_what_was_written_last_is_objected_to() -> None:
    async def story(held: Store) -> None:
        before = held.get(PODS, WEB)
        held.write(PODS, WEB, pod())
        assert [*of_a_head(before, held, PODS, WEB)]
        assert [*of_a_head(None, held, PODS, WEB)]
        assert [*of_a_list([], held, PODS)]
        newest = held.head(PODS, WEB)
        assert newest is not None
        assert [*of_a_list([newest, newest], held, PODS)]
        held.remove(PODS, WEB, pod())
        assert [*of_a_head(newest, held, PODS, WEB)]
        assert [*of_a_list([newest], held, PODS)]

    assert heard(story) == []


def test_a_refusal_by_what_may_not_last_is_objected_to() -> None:
    async def story(held: Store) -> None:
        server = Server.in_memory()
        await server.start()
        gone, lasts = Request("DELETE", "/x"), asyncio.get_running_loop().create_future()
        assert [*of_a_refusal(NotFound("x"), [lasts], server, gone)]
        assert not [*of_a_refusal(BadRequest("x"), [lasts], server, gone)]
        lasts.set_result(None)
        assert not [*of_a_refusal(NotFound("x"), [lasts], server, gone)]

    assert heard(story) == []


def test_what_a_write_may_be_decided_upon_is_what_is_being_written() -> None:
    async def story(held: Store) -> None:
        server = Server.in_memory()
        await server.start()
        server.store = held
        assert under_way_at(server, Request("DELETE", "/x")) == []
        done = held.write(PODS, WEB, pod())
        assert under_way_at(server, Request("DELETE", "/x")) == [done]
        assert under_way_at(server, Request("GET", "/x")) == []

    assert heard(story) == []


def test_after_a_write_that_failed_nothing_is_known() -> None:
    async def story(held: Store) -> None:
        done: asyncio.Future[Item] = asyncio.get_running_loop().create_future()
        assert not [*of_a_write(done, True, held, PODS, DB, {"metadata": {"resourceVersion": "7"}})]
        assert [*of_a_head(None, held, PODS, DB)]
        done.cancel()
        assert not [*of_a_head(None, held, PODS, DB)]

    assert heard(story) == []


@pytest.mark.parametrize(
    ("answer", "version", "right"),
    [
        ([], None, True),
        ([], 5, True),
        (Expired(""), 1, True),
        (TooLargeVersion(9, 8), 9, True),
        (Expired(""), 5, False),
        ([], 1, False),
        ([], 9, False),
        (TooLargeVersion(8, 8), 8, False),
        (Expired(""), 9, False),
    ],
)
def test_what_is_too_old_or_not_there_yet_is_refused_and_nothing_else(
    answer: Any, version: int | None, right: bool
) -> None:
    async def story(held: Store) -> None:
        held.floor, held.version = 2, 8
        assert (not [*of_a_version(answer, held, PODS, version)]) is right

    assert heard(story) == []


@pytest.mark.parametrize(
    ("window", "window_bytes", "floor", "right"),
    [
        (3, 1000, 0, True),
        (2, 1000, 1, True),
        (1, 1000, 2, True),
        (3, SIZE, 2, True),
        (3, SIZE - 1, 2, True),
        (3, 2 * SIZE, 1, True),
        (2, 1000, 0, False),
        (3, 2 * SIZE, 0, False),
        (3, 2 * SIZE - 1, 1, False),
        (3, 1000, 1, False),
        (3, 2 * SIZE, 2, False),
    ],
)
def test_a_window_that_is_too_small_or_too_large_is_objected_to(
    window: int, window_bytes: int, floor: int, right: bool
) -> None:
    """Of three changes those up to the floor are forgotten."""

    async def story(held: Store) -> None:
        await held.write(PODS, WEB, pod())
        await held.write(PODS, WEB, pod())
        held.window, held.window_bytes, held.floor = window, window_bytes, floor
        vars(held)["_bytes"] = (3 - floor) * SIZE
        assert (not [*of_eviction(None, 0, held)]) is right

    assert heard(story) == []


def test_bytes_that_are_counted_wrongly_are_objected_to() -> None:
    async def story(held: Store) -> None:
        assert not [*of_eviction(None, 0, held)]
        vars(held)["_bytes"] += 1
        assert [*of_eviction(None, 0, held)]

    assert heard(story) == []


def failing(log: VolatileLog) -> Callable[[Store], Awaitable[None]]:
    """A story in which the log fails while a write is under way, and works again later."""

    async def story(held: Store) -> None:
        log.broken = True
        lost = held.write(PODS, WEB, pod())
        assert takes_writes(held) is True
        with suppress(StoreFailed):
            await lost
        for write in (held.write, held.remove):
            with pytest.raises(StoreFailed):
                write(PODS, WEB, pod())
        with pytest.raises(StoreFailed):
            await held.settled()
        log.broken = False
        await asyncio.sleep(2)
        await held.write(PODS, WEB, pod())
        await held.settled()

    return story


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_fails_and_goes_on_is_not_objected_to(seed: int) -> None:
    log = VolatileLog(Random(seed), journal=lambda record: None)
    assert heard(failing(log), log=log) == []


def test_a_write_that_is_accepted_while_the_log_has_failed_is_objected_to() -> None:
    log = VolatileLog(Random(0), journal=lambda record: None)

    async def story(held: Store) -> None:
        log.broken = True
        with suppress(StoreFailed):
            await held.write(PODS, WEB, pod())
        vars(held)["_failure"] = None
        held.write(PODS, WEB, pod())

    assert [each for each in heard(story, log=log) if "has failed and not resumed" in each]


def test_a_write_that_is_refused_for_nothing_is_objected_to() -> None:
    async def story(held: Store) -> None:
        for opinion in (of_a_write, of_a_removal):
            assert [*opinion(StoreFailed(""), True, held, PODS, WEB, pod())]
            assert not [*opinion(StoreFailed(""), None, held, PODS, WEB, pod())]
            assert not [*opinion(StoreFailed(""), False, held, PODS, WEB, pod())]

    assert heard(story) == []


def test_what_counts_as_settled_and_is_not_is_objected_to() -> None:
    async def story(held: Store) -> None:
        done = held.write(PODS, WEB, pod())
        assert [*of_settling(None, [done], held)]
        await done
        assert not [*of_settling(None, [done], held)]
        assert [*of_settling(StoreFailed(""), [done], held)]

    assert heard(story) == []


def test_only_what_does_not_exist_yet_is_refused_as_such() -> None:
    async def story(held: Store) -> None:
        assert not [*of_the_future(None, held, 1)]
        assert not [*of_the_future(TooLargeVersion(2, 1), held, 2)]
        assert [*of_the_future(None, held, 2)]
        assert [*of_the_future(TooLargeVersion(1, 1), held, 1)]

    assert heard(story) == []


def test_what_is_skipped_and_is_still_to_be_taken_is_objected_to() -> None:
    async def story(held: Store) -> None:
        cursor = held.watch(PODS, 0)
        assert [*of_skipping(None, cursor)]
        cursor.skip()
        assert not [*of_skipping(None, cursor)]

    assert heard(story) == []


def test_what_has_failed_and_is_published_all_the_same_is_objected_to() -> None:
    async def story(held: Store) -> None:
        loop = asyncio.get_running_loop()
        failed, open_, done = loop.create_future(), loop.create_future(), loop.create_future()
        failed.set_exception(StoreFailed(""))
        done.set_result(None)
        item = held.get(PODS, WEB)
        change: Any = SimpleNamespace(item=item)
        writes = [SimpleNamespace(resource=PODS, change=change, done=each) for each in (failed, open_, done)]
        assert store.failed_before(held, writes) == [writes[0], writes[2]]
        assert len([*store.of_publishing(None, [writes[0], writes[2]], held, writes)]) == 1

    assert heard(story) == []
