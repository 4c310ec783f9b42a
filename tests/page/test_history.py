"""The ring of changes: its bounds, and what a browser that was away for a while may take from it."""

from __future__ import annotations

from mooring.page.history import Change, History


def change(key: str, size: int = 1) -> tuple[Change, ...]:
    return (Change("nodes", key, None, {"phase": "x" * size}),)


def versions(history: History) -> list[int]:
    return [batch.version for batch in history]


def test_what_is_older_than_an_hour_is_let_go():
    history = History(age_ms=1000)
    history.add(1, 0, change("a"))
    history.add(2, 900, change("b"))
    history.add(3, 1500, change("c"))
    assert versions(history) == [2, 3]
    history.forget(3000)
    assert (versions(history), history.changes, history.size) == ([], 0, 0)


def test_there_is_a_bound_on_the_number_of_changes():
    history = History(most_changes=3)
    for version in range(1, 10):
        history.add(version, version, change("a"))
    assert versions(history) == [7, 8, 9]


def test_there_is_a_bound_on_the_bytes():
    history = History(most_bytes=1000)
    for version in range(1, 50):
        history.add(version, version, change("a", 200))
        assert history.size <= 1000
    assert 0 < len(versions(history)) < 5


def test_one_batch_that_is_larger_than_all_the_room_is_not_kept():
    history = History(most_bytes=100)
    history.add(1, 1, change("a", 1000))
    assert versions(history) == []


def test_who_was_away_takes_what_came_since():
    history = History()
    for version in (5, 6, 7):
        history.add(version, version, change("a"))
    assert [batch.version for batch in history.since(5, 7) or ()] == [6, 7]
    assert history.since(7, 7) == []


def test_who_was_away_too_long_or_comes_from_elsewhere_begins_anew():
    history = History(most_changes=2)
    for version in (5, 6, 7):
        history.add(version, version, change("a"))
    assert history.since(3, 7) is None
    assert history.since(-1, 7) is None
    assert history.since(9, 7) is None


def test_the_changes_of_one_row_are_found_with_their_times():
    history = History()
    history.add(1, 10, change("a") + change("b"))
    history.add(2, 20, change("b"))
    assert [at for at, _ in history.about("nodes", "b")] == [10, 20]
    assert not list(history.about("volumes", "b"))
