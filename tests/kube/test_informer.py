"""The guarantees of an informer, against the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
import waiting
from hypothesis import HealthCheck, given, settings

from mooring.apiserver import Server
from mooring.apiserver.store.log import MemoryLog
from mooring.kube.client import Client, WatchEvent
from mooring.kube.errors import Conflict, TooLargeVersion, Unreachable
from mooring.kube.informer import Informer
from mooring.kube.objects import ConfigMap, ObjectMeta
from mooring.kube.transport import Request, Response
from mooring.simulation.parts.faulty_transport import admin, request
from mooring.simulation.parts.store_log import log_of

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]
MAPS = "/configmaps"


def config_map(name: str, value: str = "1") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"value": value}},
        "data": {"value": value},
    }


async def create(api: Any, name: str, value: str = "1") -> ConfigMap:
    return await api.admin.create(ConfigMap, config_map(name, value), "default")


async def change(api: Any, name: str, value: str) -> ConfigMap:
    return await api.admin.patch(ConfigMap, name, {"data": {"value": value}}, "default")


async def remove(api: Any, name: str) -> None:
    await api.admin.delete(ConfigMap, name, "default")


class Watched:
    """An informer that runs, with a note of what its handler was told."""

    def __init__(self, api: Any, **options: Any) -> None:
        self.informer = Informer(api.client, ConfigMap, random=Random(3), **options)
        self.changes: list[tuple[str | None, str | None]] = []
        self.informer.add_handler(lambda old, new: self.changes.append((value_of(old), value_of(new))))
        self.task = asyncio.create_task(self.informer.run())

    async def synced(self) -> Watched:
        await self.informer.synced()
        return self

    async def is_synced(self) -> bool:
        waiting = asyncio.ensure_future(self.informer.synced())
        await asyncio.sleep(0)
        waiting.cancel()
        return waiting.done()

    def values(self) -> dict[str, str]:
        return {item.name: item.data["value"] for item in self.informer.items()}

    async def until(self, values: dict[str, str]) -> None:
        await waiting.until(
            lambda: self.values() == values, f"{values}", seconds=100, every_s=0.01, state=self.values
        )


def value_of(item: ConfigMap | None) -> str | None:
    return item.data["value"] if item is not None else None


def test_after_synced_the_cache_holds_what_was_there(play: Play):
    async def story(api: Any):
        for number in range(3):
            await create(api, f"m{number}")
        watched = await Watched(api).synced()
        assert set(watched.values()) == {"m0", "m1", "m2"}
        assert watched.informer.get("default/m1") is not None
        assert watched.informer.get("m1") is None

    play(story)


def test_changes_reach_handlers_in_order_with_old_and_new(play: Play):
    async def story(api: Any):
        watched = await Watched(api).synced()
        await create(api, "m", "1")
        await change(api, "m", "2")
        await remove(api, "m")
        await asyncio.sleep(1)
        assert watched.changes == [(None, "1"), ("1", "2"), ("2", None)]

    play(story)


def test_what_is_gone_is_told_once_and_with_its_uid(play: Play):
    async def story(api: Any):
        gone: list[str] = []
        watched = await Watched(api).synced()
        watched.informer.when_gone(lambda item: gone.append(item.uid))
        made = await create(api, "m", "1")
        await change(api, "m", "2")
        await asyncio.sleep(1)
        assert gone == []
        await remove(api, "m")
        await asyncio.sleep(1)
        assert gone == [made.uid]

    play(story)


def test_objects_are_found_by_what_indexers_say_of_their_present_state(play: Play):
    async def story(api: Any):
        watched = await Watched(api, indexers={"value": lambda item: [item.data["value"]]}).synced()
        await create(api, "a", "x")
        await create(api, "b", "x")
        await change(api, "b", "y")
        await watched.until({"a": "x", "b": "y"})
        names = {value: [item.name for item in watched.informer.by_index("value", value)] for value in "xyz"}
        assert names == {"x": ["a"], "y": ["b"], "z": []}
        await remove(api, "a")
        await watched.until({"b": "y"})
        assert watched.informer.by_index("value", "x") == []

    play(story)


def test_selectors_narrow_what_is_cached(play: Play):
    async def story(api: Any):
        watched = await Watched(api, label_selector="value=x").synced()
        await create(api, "a", "x")
        await create(api, "b", "y")
        await watched.until({"a": "x"})
        await api.admin.patch(ConfigMap, "a", {"metadata": {"labels": {"value": "y"}}}, "default")
        await watched.until({})

    play(story)


class Breaking:
    """Breaks watches: the first `whole` of their pieces arrive, then the stream fails. Streams lists if told
    to."""

    def __init__(self, inner: Any, *, streams: bool = False) -> None:
        self.inner = inner
        self.streams = streams
        self.whole: int | None = None
        self.watches: list[str] = []
        self.end = "break"

    async def send(self, request: Request) -> Response:
        query = dict(request.query)
        if "sendInitialEvents" in query and not self.streams:
            return Response(
                422, {}, b'{"reason": "Invalid", "message": "sendInitialEvents is forbidden for watch"}'
            )
        answer = await self.inner.send(request)
        if answer.stream is None:
            return answer
        self.watches.append(query.get("resourceVersion", ""))
        return Response(answer.status, answer.headers, b"", self.pieces(answer.stream))

    async def pieces(self, stream: Any) -> AsyncIterator[bytes]:
        from mooring.kube.errors import Unreachable

        try:
            while self.whole is None or self.whole > 0:
                piece = await anext(stream)
                self.whole = None if self.whole is None else self.whole - 1
                yield piece
        finally:
            await stream.aclose()
        if self.end == "break":
            raise Unreachable("the stream broke")

    async def close(self) -> None:
        await self.inner.close()


class Single:
    """Gives the lines of a stream one at a time."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def send(self, request: Request) -> Response:
        answer = await self.inner.send(request)
        return (
            answer if answer.stream is None else Response(answer.status, {}, b"", self.lines(answer.stream))
        )

    async def lines(self, stream: Any) -> AsyncIterator[bytes]:
        try:
            async for piece in stream:
                for line in piece.splitlines(keepends=True):
                    yield line
        finally:
            await stream.aclose()


def test_a_dropped_watch_goes_on_where_it_was_and_tells_nothing_twice(play: Play):
    async def story(api: Any):
        breaking = api.client.transport = Breaking(api.client.transport)
        watched = await Watched(api).synced()
        breaking.whole = 1
        await create(api, "m", "1")
        await asyncio.sleep(0.05)
        await change(api, "m", "2")
        breaking.whole = None
        await change(api, "m", "3")
        await watched.until({"m": "3"})
        assert watched.changes == [(None, "1"), ("1", "2"), ("2", "3")]
        assert sum(line.startswith("GET") for line in api.wire.sent) == 1 + len(breaking.watches), (
            "one list only"
        )
        assert breaking.watches == sorted(breaking.watches, key=int)

    play(story)


def test_a_server_that_streams_no_lists_is_asked_for_pages_at_once_and_from_then_on(play: Play):
    async def story(api: Any):
        await create(api, "m", "1")
        breaking = api.client.transport = Breaking(api.client.transport)
        began = asyncio.get_running_loop().time()
        watched = await Watched(api).synced()
        assert asyncio.get_running_loop().time() == began
        assert watched.values() == {"m": "1"}
        await change(api, "m", "2")
        await watched.until({"m": "2"})
        assert breaking.watches == sorted(breaking.watches, key=int)

    play(story)


def test_a_list_is_streamed_and_its_stream_goes_on_as_the_watch(play: Play):
    async def story(api: Any):
        for name in ("a", "b"):
            await create(api, name, "1")
        breaking = api.client.transport = Breaking(api.client.transport, streams=True)
        watched = await Watched(api).synced()
        assert watched.values() == {"a": "1", "b": "1"}
        await change(api, "a", "2")
        await watched.until({"a": "2", "b": "1"})
        assert watched.changes == [(None, "1"), (None, "1"), ("1", "2")]
        assert breaking.watches == [""]
        assert [line for line in api.wire.sent if "configmaps" in line] == ["GET /api/v1/configmaps"]

    play(story)


def test_a_streamed_list_that_breaks_changes_nothing_until_one_is_whole(play: Play):
    async def story(api: Any):
        for name in ("a", "b", "c"):
            await create(api, name, "1")
        breaking = api.client.transport = Breaking(Single(api.client.transport), streams=True)
        breaking.whole = 2
        watched = Watched(api)
        await asyncio.sleep(30)
        assert watched.values() == {}
        assert not await watched.is_synced()
        breaking.whole = None
        await watched.synced()
        assert watched.changes == [(None, "1")] * 3

    play(story)


def test_a_streamed_list_after_a_gap_tells_the_differences(play: Play):
    async def story(api: Any):
        for name in ("changed", "removed"):
            await create(api, name, "1")
        breaking = api.client.transport = Breaking(api.client.transport, streams=True)
        watched = await Watched(api).synced()
        watched.changes.clear()
        api.wire.down = True
        await asyncio.sleep(5)
        api.server.store.window = 3
        await remove(api, "removed")
        await create(api, "added", "1")
        for value in range(10):
            await change(api, "changed", str(value))
        api.wire.down = False
        await watched.until({"changed": "9", "added": "1"})
        assert sorted(watched.changes, key=str) == sorted([("1", "9"), ("1", None), (None, "1")], key=str)
        assert breaking.watches.count("") == 2

    play(story)


def test_a_server_that_is_too_busy_is_left_alone_for_as_long_as_it_says(play: Play):
    async def story(api: Any):
        class Busy:
            def __init__(self, inner: Any) -> None:
                self.inner, self.times = inner, list[float]()

            async def send(self, request: Request) -> Response:
                self.times.append(asyncio.get_running_loop().time())
                if len(self.times) < 3:
                    return Response(429, {"retry-after": "7"}, b"{}")
                return await self.inner.send(request)

        busy = api.client.transport = Busy(api.client.transport)
        await Watched(api).synced()
        first, second, third, *_ = busy.times
        assert second - first >= 7
        assert third - second >= 7

    play(story)


def test_a_server_that_ends_every_watch_at_once_is_asked_less_and_less(play: Play):
    async def story(api: Any):
        breaking = api.client.transport = Breaking(api.client.transport)
        breaking.whole, breaking.end = 0, "end"
        await Watched(api).synced()
        await asyncio.sleep(120)
        assert 10 < len(breaking.watches) < 30

    play(story)


def test_after_a_long_outage_the_first_break_is_mended_quickly(play: Play):
    async def story(api: Any):
        breaking = api.client.transport = Breaking(api.client.transport)
        breaking.whole = 0
        watched = await Watched(api).synced()
        await asyncio.sleep(120)
        breaking.whole = 1
        await create(api, "m", "1")
        await watched.until({"m": "1"})
        breaking.whole = None
        began = asyncio.get_running_loop().time()
        await change(api, "m", "2")
        await watched.until({"m": "2"})
        assert asyncio.get_running_loop().time() - began < 1

    play(story)


def test_a_version_that_is_too_old_leads_to_a_list_whose_differences_are_told(play: Play):
    async def story(api: Any):
        for name in ("kept", "changed", "removed"):
            await create(api, name, "1")
        breaking = api.client.transport = Breaking(api.client.transport)
        watched = await Watched(api).synced()
        watched.changes.clear()
        api.wire.down, breaking.whole = True, 0
        await change(api, "kept", "1")
        await asyncio.sleep(5)
        api.server.store.window = 3
        await change(api, "changed", "2")
        await remove(api, "removed")
        await create(api, "added", "1")
        for value in range(10):
            await change(api, "changed", str(value))
        api.wire.down, breaking.whole = False, None
        await watched.until({"kept": "1", "changed": "9", "added": "1"})
        assert sorted(watched.changes, key=str) == sorted([("1", "9"), ("1", None), (None, "1")], key=str)
        assert api.wire.sent.count("GET /api/v1/configmaps") >= 3

    play(story)


def backup_of(server: Server) -> MemoryLog:
    kept = server.store._log.recover()
    return log_of([*kept.records], kept.floor)


async def restored(api: Any, backup: MemoryLog) -> Client:
    """From now on the wire leads to a server that was started on the backup. Returns another client of it."""
    server = Server(backup, api.server.tokens, now=api.now, random=Random(2))
    await server.start()
    api.wire.inner = admin(server)
    return Client(admin(server))


def test_a_server_that_was_restored_from_a_backup_is_believed_and_what_came_after_it_is_undone(play: Play):
    """The versions are given anew: the one that was watched from does not exist for long, and then is that of
    something else."""

    async def story(api: Any):
        for name in ("kept", "changed", "removed"):
            await create(api, name, "1")
        backup = backup_of(api.server)
        watched = await Watched(api).synced()
        await change(api, "changed", "2")
        await remove(api, "removed")
        await create(api, "added")
        await watched.until({"kept": "1", "changed": "2", "added": "1"})
        watched.changes.clear()
        api.wire.down = True
        there = await restored(api, backup)
        api.wire.down = False
        await watched.until({"kept": "1", "changed": "1", "removed": "1"})
        assert sorted(watched.changes, key=str) == sorted([("2", "1"), ("1", None), (None, "1")], key=str)
        await there.patch(ConfigMap, "changed", {"data": {"value": "3"}}, "default")
        await watched.until({"kept": "1", "changed": "3", "removed": "1"})

    play(story)


def test_a_server_that_lags_behind_the_others_takes_back_nothing_of_our_own(play: Play):
    async def story(api: Any):
        informer, changes = alone(api)
        informer.apply(event("ADDED", 5))
        informer.accept(version(9))
        await informer._recover(TooLargeVersion("an older one", status=504))
        informer._replace({"default/m": version(7)}, 7)
        assert changes == [(None, "5"), ("5", "9")]

    play(story)


def test_an_unreachable_server_is_tried_until_it_answers(play: Play):
    async def story(api: Any):
        api.wire.down = True
        watched = Watched(api)
        await create(api, "m", "1")
        await asyncio.sleep(300)
        assert not watched.task.done()
        assert watched.values() == {}
        assert isinstance(watched.informer.trouble, Unreachable)
        api.wire.down = False
        await watched.synced()
        assert watched.values() == {"m": "1"}
        assert watched.informer.trouble is None

    play(story)


class Garbling:
    """A wire on which, while `garbled`, what is `old` reads as `new`."""

    def __init__(self, inner: Any, old: bytes, new: bytes) -> None:
        self.inner, self.old, self.new, self.garbled = inner, old, new, True

    async def send(self, request: Request) -> Response:
        answer = await self.inner.send(request)
        return Response(
            answer.status,
            answer.headers,
            self.read(answer.body),
            None if answer.stream is None else self.pieces(answer.stream),
        )

    async def pieces(self, stream: Any) -> AsyncIterator[bytes]:
        try:
            async for piece in stream:
                yield self.read(piece)
        finally:
            await stream.aclose()

    def read(self, body: bytes) -> bytes:
        return body.replace(self.old, self.new) if self.garbled else body

    async def close(self) -> None:
        await self.inner.close()


def test_one_object_that_cannot_be_read_takes_nothing_from_the_cache_until_it_is_mended(play: Play):
    async def story(api: Any):
        bad = b'"data":{"value":"bad"}'
        api.client.transport = Garbling(api.client.transport, bad, b'"data":"bad"')
        await create(api, "m", "1")
        watched = await Watched(api).synced()
        await create(api, "n", "bad")
        await asyncio.sleep(30)
        assert watched.values() == {"m": "1"}
        assert "default/n" in str(watched.informer.trouble)
        await change(api, "m", "2")
        await change(api, "n", "good")
        await watched.until({"m": "2", "n": "good"})
        assert watched.changes == [(None, "1"), ("1", "2"), (None, "good")]

    play(story)


def test_versions_that_are_no_numbers_are_a_trouble_of_their_kind_alone(play: Play):
    async def story(api: Any):
        garbling = Garbling(api.client.transport, b'"resourceVersion":"', b'"resourceVersion":"12/')
        api.client.transport = garbling
        watched = Watched(api)
        await asyncio.sleep(30)
        assert not watched.informer.is_synced
        assert "is no number" in str(watched.informer.trouble)
        garbling.garbled = False
        await watched.synced()

    play(story)


def test_wait_for_returns_when_the_watch_has_brought_that_version(play: Play):
    async def story(api: Any):
        watched = await Watched(api).synced()
        made = await create(api, "m", "1")
        await watched.informer.wait_for(made.metadata.resource_version)
        assert watched.values() == {"m": "1"}
        await watched.informer.wait_for(made.metadata.resource_version)

    play(story)


def test_ones_own_write_is_in_the_cache_at_once_and_is_told_once(play: Play):
    async def story(api: Any):
        watched = await Watched(api).synced()
        made = await create(api, "m", "1")
        watched.informer.accept(made)
        assert watched.values() == {"m": "1"}
        await asyncio.sleep(1)
        assert watched.changes == [(None, "1")]

    play(story)


def test_the_cache_holds_of_an_object_what_is_to_be_kept(play: Play):
    async def story(api: Any):
        def keep(item: ConfigMap) -> ConfigMap:
            return ConfigMap(metadata=item.metadata, data={"value": f"kept {item.data['value']}"})

        watched = await Watched(api, keep=keep).synced()
        await create(api, "m", "1")
        await watched.until({"m": "kept 1"})
        watched.informer.accept(await change(api, "m", "2"))
        assert watched.values() == {"m": "kept 2"}
        assert watched.changes == [(None, "kept 1"), ("kept 1", "kept 2")]
        watched.task.cancel()

    play(story)


def test_handlers_need_not_be_told_of_what_was_created_here(play: Play):
    async def story(api: Any):
        watched = await Watched(api).synced()
        watched.informer.accept(await create(api, "m"), tell=False)
        assert watched.values() == {"m": "1"}
        await watched.until({"m": "1"})
        await change(api, "m", "2")
        await watched.until({"m": "2"})
        assert watched.changes == [("1", "2")]
        watched.task.cancel()

    play(story)


def of_our_own(informer: Any, made: ConfigMap) -> None:
    informer.accept(made, tell=False)


def of_a_list(informer: Any, made: ConfigMap) -> None:
    informer._replace({made.key: made}, int(made.metadata.resource_version))


@pytest.mark.parametrize("learn", [of_our_own, of_a_list])
def test_what_is_in_the_place_of_another_is_told_of_as_two_changes(
    play: Play, learn: Callable[[Any, ConfigMap], None]
):
    """What was created here: the watch will not tell of the end of that one any more. And what a broken watch
    finds when it goes on: handlers forget what is gone by its uid (found by the simulation: 2000011 of the
    swarm, L18)."""

    async def story(api: Any):
        watched = await Watched(api).synced()
        await create(api, "m", "old")
        await watched.until({"m": "old"})
        watched.task.cancel()  # from now on the watch is late
        await remove(api, "m")
        learn(watched.informer, await create(api, "m", "new"))
        assert watched.changes == [(None, "old"), ("old", None), (None, "new")]

    play(story)


def test_an_index_holds_one_key_and_many_under_a_value(play: Play):
    async def story(api: Any):
        by_value = {"value": lambda item: [item.data["value"]]}  # type: ignore[reportUnknownLambdaType]
        watched = await Watched(api, indexers=by_value).synced()

        def under(value: str) -> list[str]:
            return [item.name for item in watched.informer.by_index("value", value)]

        for name in ("a", "b", "c"):
            watched.informer.accept(await create(api, name, "1"))
        assert (under("1"), under("2")) == (["a", "b", "c"], [])
        watched.informer.accept(await change(api, "b", "2"))
        assert (under("1"), under("2")) == (["a", "c"], ["b"])
        for name in ("a", "c"):
            watched.informer.accept(await change(api, name, "2"))
        assert (under("1"), under("2")) == ([], ["b", "a", "c"])
        watched.task.cancel()

    play(story)


# --- accept and the watch in every order: no server, only what could arrive


def version(number: int, value: str = "") -> ConfigMap:
    metadata = ObjectMeta(name="m", namespace="default", resource_version=str(number))
    return ConfigMap(metadata=metadata, data={"value": value or str(number)})


def alone(api: Any) -> tuple[Informer[ConfigMap], list[tuple[str | None, str | None]]]:
    informer = Informer(api.client, ConfigMap, random=Random(0))
    changes: list[tuple[str | None, str | None]] = []
    informer.add_handler(lambda old, new: changes.append((value_of(old), value_of(new))))
    return informer, changes


def event(kind: str, number: int) -> WatchEvent[ConfigMap]:
    return WatchEvent(kind, version(number), str(number))


def test_an_older_event_that_comes_after_the_answer_of_ones_own_write_is_not_applied(play: Play):
    async def story(api: Any):
        informer, changes = alone(api)
        informer.apply(event("ADDED", 5))
        informer.accept(version(9))
        informer.apply(event("MODIFIED", 7))
        assert informer.get("default/m") == version(9)
        assert changes == [(None, "5"), ("5", "9")]

    play(story)


def test_an_answer_that_comes_after_the_deletion_was_seen_brings_nothing_back(play: Play):
    async def story(api: Any):
        informer, changes = alone(api)
        informer.apply(event("ADDED", 5))
        informer.apply(event("DELETED", 8))
        informer.accept(version(7))
        assert informer.get("default/m") is None
        assert changes == [(None, "5"), ("5", None)]

    play(story)


def test_the_deletion_of_an_object_is_not_undone_by_the_list_that_did_not_know_it_yet(play: Play):
    async def story(api: Any):
        informer, _ = alone(api)
        informer.accept(version(9))
        informer.apply(event("ADDED", 5))
        informer.apply(event("DELETED", 6))
        assert informer.get("default/m") == version(9), "that deletion was of an older object of this name"

    play(story)


HISTORY = st.lists(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), min_size=1, max_size=8)


def consistent(kinds: list[str]) -> list[WatchEvent[ConfigMap]]:
    """The kinds as a history that can happen: what is not there is added, what is there is changed or
    deleted."""
    there, events = False, list[WatchEvent[ConfigMap]]()
    for number, kind in enumerate(kinds, start=1):
        now = ("MODIFIED" if kind == "ADDED" else kind) if there else "ADDED"
        there = now != "DELETED"
        events.append(event(now, number))
    return events


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(
    kinds=HISTORY, own=st.sets(st.integers(0, 7)), late=st.lists(st.integers(0, 8), min_size=8, max_size=8)
)
def test_however_answers_and_events_interleave_the_cache_never_goes_back_and_ends_right(
    play: Play, kinds: list[str], own: set[int], late: list[int]
):
    async def story(api: Any):
        informer, changes = alone(api)
        history = consistent(kinds)
        # Every own write's answer arrives at some time relative to the events: before event number late[i].
        answers = {i: late[i] for i in own if i < len(history) and history[i].type != "DELETED"}
        seen = 0
        for step in range(len(history) + 1):
            for i in sorted(i for i, when in answers.items() if min(when, len(history)) == step):
                informer.accept(history[i].object)  # type: ignore[arg-type]
            if step < len(history):
                informer.apply(history[step])
            held = informer.get("default/m")
            now = int(held.metadata.resource_version) if held else seen
            assert now >= seen
            seen = now
        last = history[-1]
        assert informer.get("default/m") == (None if last.type == "DELETED" else last.object)
        assert all(old == previous for (old, _), (_, previous) in zip(changes[1:], changes, strict=False)), (
            "a chain"
        )

    play(story)


def test_synced_waits_for_the_first_list(play: Play):
    async def story(api: Any):
        held = api.wire.hold(request("GET", MAPS))
        watched = Watched(api)
        await held.arrived.wait()
        assert not await watched.is_synced()
        held.release()
        await watched.synced()

    play(story)


def test_what_is_read_live_gets_into_the_cache(play: Play):
    async def story(api: Any):
        informer = Informer(api.client, ConfigMap, random=Random(3))
        made = await create(api, "a")
        assert await informer.read_live("a", "default") == made
        assert informer.get("default/a") == made
        assert await informer.read_live("b", "default") is None
        assert await informer.read_live("") is None

    play(story)


def test_an_object_is_confirmed_as_long_as_it_is_as_it_was(play: Play):
    async def story(api: Any):
        informer = Informer(api.client, ConfigMap, random=Random(3))
        known = await create(api, "a")
        await informer.confirm(known)
        changed = await change(api, "a", "2")
        with pytest.raises(Conflict):
            await informer.confirm(known)
        assert informer.get("default/a") == changed
        await informer.confirm(changed)
        await remove(api, "a")
        with pytest.raises(Conflict):
            await informer.confirm(changed)

    play(story)
