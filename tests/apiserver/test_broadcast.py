"""Live watches: everyone gets each piece once and in order; one who cannot take it reads on from before
it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.apiserver.requests.watch_broadcast import ANY, Broadcaster
from mooring.apiserver.store.history import Change, Cursor, History, Item

Run = Callable[[Awaitable[Any]], Any]


@dataclass(frozen=True)
class OfNode:
    """Sees what is on one node, or everything."""

    node: str = ""
    said: list[str] = field(default_factory=list, compare=False)

    @property
    def index(self) -> tuple[str, str]:
        return ("node", self.node) if self.node else ANY

    def event(self, change: Change) -> bytes:
        if change.item.key[1] == "bad":
            raise RuntimeError("this one cannot be told")
        self.said.append(change.item.key[1])
        return f"{change.item.key[1]};".encode()


class Reader:
    """One live watch with room for so many pieces."""

    def __init__(self, broadcaster: Broadcaster, history: History, view: OfNode, room: int = 1000) -> None:
        self.cursor = Cursor(history, history.end)
        self.got: list[bytes] = []
        self.room = room
        self.task = asyncio.ensure_future(broadcaster.follow(view, self.cursor, self.sink))

    def sink(self, piece: bytes) -> bool:
        if len(self.got) >= self.room:
            return False
        self.got.append(piece)
        return True

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class BroadcastAudience:
    def __init__(self) -> None:
        self.history = History()
        self.broadcaster = Broadcaster(self.history)
        self.version = 0

    async def read(self, node: str = "", room: int = 1000) -> Reader:
        reader = Reader(self.broadcaster, self.history, OfNode(node), room)
        await asyncio.sleep(0)
        return reader

    def append(self, name: str, node: str = "n1", before: str | None = None) -> None:
        self.version += 1
        previous = None if before is None else Item(("", name), name, self.version, {}, {"node": before}, b"")
        item = Item(("", name), name, self.version, {}, {"node": node}, b"")
        self.history.append(Change("MODIFIED", item, previous))

    async def write(self, name: str, node: str = "n1", before: str | None = None) -> None:
        self.append(name, node, before)
        self.history.wake()
        await asyncio.sleep(0.1)


@pytest.fixture
def play(run: Run) -> Callable[[Callable[[BroadcastAudience], Awaitable[None]]], None]:
    def played(story: Callable[[BroadcastAudience], Awaitable[None]]) -> None:
        async def whole() -> None:
            await story(BroadcastAudience())

        run(whole())

    return played


def test_everyone_gets_each_piece_and_it_is_made_once_for_those_who_see_the_same(play):
    async def story(world):
        readers = [await world.read() for _ in range(3)]
        (channel,) = world.broadcaster.channels()
        await world.write("a")
        await world.write("b")
        assert [reader.got for reader in readers] == [[b"a;", b"b;"]] * 3
        assert channel.view.said == ["a", "b"]

    play(story)


def test_what_is_published_at_once_is_one_piece(play):
    async def story(world):
        reader = await world.read()
        world.append("a")
        world.append("b")
        await world.write("c")
        assert reader.got == [b"a;b;c;"]

    play(story)


def test_a_change_touches_only_those_whom_it_may_concern(play):
    async def story(world):
        one, two, every = await world.read("n1"), await world.read("n2"), await world.read()
        said = {channel.view.node: channel.view.said for channel in world.broadcaster.channels()}
        await world.write("a", "n1")
        assert said == {"n1": ["a"], "n2": [], "": ["a"]}
        await world.write("a", "n2", before="n1")
        assert said == {"n1": ["a", "a"], "n2": ["a"], "": ["a", "a"]}
        assert (one.got, two.got, every.got) == ([b"a;"] * 2, [b"a;"], [b"a;"] * 2)

    play(story)


def test_one_who_is_full_leaves_with_its_cursor_before_the_piece_that_it_did_not_take(play):
    async def story(world):
        slow, quick = await world.read(room=1), await world.read()
        await world.write("a")
        await world.write("b")
        await world.write("c")
        assert quick.got == [b"a;", b"b;", b"c;"]
        assert slow.got == [b"a;"] and slow.task.done()
        assert [change.item.key[1] for change in slow.cursor.take()] == ["b", "c"]

    play(story)


def test_one_who_stops_stands_after_what_it_got(play):
    async def story(world):
        reader = await world.read()
        await world.write("a")
        world.append("b")
        await reader.stop()
        assert reader.got == [b"a;"]
        assert [change.item.key[1] for change in reader.cursor.take()] == ["b"]
        assert world.broadcaster.channels() == []

    play(story)


def test_one_who_joins_between_a_write_and_its_news_reads_it_first(play):
    async def story(world):
        early = await world.read()
        late = Cursor(world.history, world.history.end)
        world.append("a")
        await world.broadcaster.follow(OfNode(), late, lambda piece: True)
        assert [change.item.key[1] for change in late.take()] == ["a"]
        assert early.got == [b"a;"]

    play(story)


def test_what_cannot_be_told_sends_everyone_to_read_for_themselves(play):
    async def story(world):
        readers = [await world.read(node) for node in ("", "n2")]
        await world.write("bad", "n1")
        assert all(reader.task.done() for reader in readers)
        assert [change.item.key[1] for change in readers[1].cursor.take()] == ["bad"]
        again = await world.read()
        await world.write("a")
        assert again.got == [b"a;"]

    play(story)
