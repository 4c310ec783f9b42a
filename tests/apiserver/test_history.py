"""The window of recent changes: what was forgotten moves nothing that is left, and readers are woken once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from mooring.apiserver.errors import Expired
from mooring.apiserver.store.history import Change, Cursor, History, Item

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def change(version: int) -> Change:
    return Change("ADDED", Item(("", "a"), "u", version, {}, {}, b""), None)


def with_versions(*versions: int) -> History:
    history = History()
    for version in versions:
        history.append(change(version))
    return history


def versions(changes: list[Change]) -> list[int]:
    return [each.item.version for each in changes]


@pytest.mark.parametrize("seed", range(10))
def test_positions_stay_true_whatever_is_forgotten(seed: int):
    """Compared with a list of which nothing is ever cut off."""
    chance, history = Random(seed), History()
    all_changes: list[Change] = []
    forgotten = 0
    for _ in range(3000):
        if forgotten < len(all_changes) and chance.random() < 0.48:
            assert history.evict() is all_changes[forgotten]
            forgotten += 1
        else:
            all_changes.append(change(3 * len(all_changes)))
            history.append(all_changes[-1])
        assert (history.start, history.end) == (forgotten, len(all_changes))
        position = chance.randint(forgotten, len(all_changes))
        limit = chance.choice([None, 0, 1, 5])
        expected = all_changes[position:] if limit is None else all_changes[position : position + limit]
        assert history.since(position, limit) == expected
        version = chance.randint(3 * forgotten, 3 * len(all_changes))
        assert history.position(version) == min(max(version // 3 + 1, forgotten), len(all_changes))


@pytest.mark.parametrize("window", [1, 7, 8, 100, 800, 20_000])
def test_of_what_is_forgotten_less_than_an_eighth_of_the_window_and_than_1024_changes_is_held(window: int):
    """Else a window takes more memory than its bounds say; and to cut it with each change would move it."""
    history, cuts = with_versions(*range(window)), 0
    for version in range(window, 2 * window + 2000):
        history.append(change(version))
        before = history.held
        history.evict()
        cuts += history.held < before
        assert history.held - window < min(max(window // 8, 1), 1024)
    assert cuts <= (window + 2000) / min(max(window // 8, 1), 1024)


def test_a_cursor_takes_what_it_has_not_taken_in_pieces():
    history = with_versions(1, 2, 3, 4)
    cursor = Cursor(history, history.position(1))
    assert not cursor.at_end
    assert versions(cursor.take(2)) == [2, 3]
    assert versions(cursor.take()) == [4]
    assert cursor.at_end
    assert cursor.take() == []


def test_a_cursor_that_skips_takes_only_what_comes_later():
    history = with_versions(1, 2)
    cursor = Cursor(history, history.position(0))
    cursor.skip()
    assert cursor.at_end
    history.append(change(3))
    assert versions(cursor.take()) == [3]


def test_a_cursor_is_expired_when_something_was_forgotten_unread_and_not_before():
    history = with_versions(1, 2, 3)
    reader, late = Cursor(history, history.position(1)), Cursor(history, history.position(0))
    history.evict()
    assert versions(reader.take()) == [2, 3]
    with pytest.raises(Expired, match="fell behind"):
        late.take()


def test_readers_that_wait_are_woken_once_and_in_order(run: Run):
    async def story() -> None:
        history, woken = History(), list[str]()

        async def read(name: str) -> None:
            await history.changed()
            woken.append(name)

        readers = [asyncio.create_task(read(name)) for name in "abc"]
        await asyncio.sleep(0)
        assert history.waiting == 3
        history.wake()
        await asyncio.gather(*readers)
        assert (woken, history.waiting) == (["a", "b", "c"], 0)

    run(story())


def test_a_reader_that_waits_again_waits_for_the_next_wake(run: Run):
    async def story() -> None:
        history, times = History(), 0

        async def read() -> None:
            nonlocal times
            while True:
                await history.changed()
                times += 1

        reader = asyncio.create_task(read())
        for expected in (1, 2):
            await asyncio.sleep(0)
            history.wake()
            await asyncio.sleep(1)
            assert times == expected
        reader.cancel()

    run(story())


def test_a_reader_that_goes_away_is_not_waited_with(run: Run):
    async def story() -> None:
        history = History()
        gone, stays = asyncio.create_task(history.changed()), asyncio.create_task(history.changed())
        await asyncio.sleep(0)
        gone.cancel()
        history.wake()  # before the one that goes has noticed
        await stays
        assert history.waiting == 0
        left = asyncio.create_task(history.changed())
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait([left])
        assert history.waiting == 0

    run(story())


def test_a_cursor_waits_only_when_it_has_taken_everything(run: Run):
    async def story() -> None:
        history = with_versions(1)
        cursor = Cursor(history, history.position(0))
        await asyncio.wait_for(cursor.changed(), 1)  # there is something already
        cursor.take()
        waiting = asyncio.create_task(cursor.changed())
        await asyncio.sleep(1)
        assert not waiting.done()
        history.append(change(2))
        history.wake()
        await waiting

    run(story())


def test_listeners_are_called_at_every_wake():
    history, heard = History(), list[int]()
    history.listen(lambda: heard.append(1))
    history.listen(lambda: heard.append(2))
    history.wake()
    history.wake()
    assert heard == [1, 2, 1, 2]
