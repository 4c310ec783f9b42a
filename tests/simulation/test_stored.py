"""What the store holds is compared with what its log has made durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.apiserver.store import object_store
from mooring.apiserver.store.history import History
from mooring.apiserver.store.object_store import Collection, Store, decode
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.parts.store_log import VolatileLog
from mooring.simulation.run import play

CALM = Scenario(nodes=1, sets={"db": 2}, minutes=12, faults=0, actions=10, history=40)


def test_a_run_compares_the_store_with_its_log_and_finds_no_difference():
    outcome = play(1, CALM)
    assert outcome.violations == []
    assert outcome.guarded["D5"] > 5


def loses_a_deletion(collection: Any, change: Any) -> None:
    if change.type != "DELETED":
        APPLY(collection, change)


def sees_the_present(collection: Any, version: int) -> Any:
    return collection.current()


def never_cuts(history: Any) -> Any:
    history._dead += 1
    return history._changes[history._dead - 1]


def sees_no_write_under_way(store: Any, resource: str, key: Any) -> Any:
    return store.get(resource, key)


def forgets_nothing(store: Any) -> None:
    forgotten = [*store._forgotten]
    ROOM(store)
    store._forgotten = forgotten


def selects_by_no_label(store: Any, resource: str, key: Any, version: int, obj: Any, body: bytes) -> Any:
    return ITEM(store, resource, key, version, {**obj, "metadata": {**obj["metadata"], "labels": {}}}, body)


APPLY, ITEM, ROOM = (
    getattr(owner, name) for owner, name in ((Collection, "apply"), (Store, "_item"), (Store, "_evict"))
)


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (Collection, "apply", loses_a_deletion),
        (Collection, "at", sees_the_present),
        (Store, "head", sees_no_write_under_way),
        (Store, "_evict", forgets_nothing),
        (Store, "_item", selects_by_no_label),
    ],
)
def test_a_store_that_holds_something_else_is_found(
    owner: type, name: str, mutant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owner, name, mutant)
    assert "D5" in play(1, CALM).invariants


def test_a_window_that_is_never_cut_is_found_by_what_it_holds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(History, "evict", never_cuts)
    monkeypatch.setattr("mooring.simulation.checks.stored.SPARE", 100)
    assert any("the store holds" in each for each in play(1, CALM).violations)


def test_a_store_that_takes_a_damaged_log_for_a_sound_one_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(object_store, "_read_back", lambda record: decode(record.body))
    found = play(1, CALM).violations
    assert any("another object" in each for each in found)
    assert any("another version" in each for each in found)
    assert any("lost its uid" in each for each in found)


def test_a_store_that_recovers_less_than_was_written_is_found(monkeypatch: pytest.MonkeyPatch):
    replay: Any = Store._replay  # pyright: ignore[reportPrivateUsage]

    def skips_some(store: Any, record: Any) -> None:
        if record.version % 7:
            replay(store, record)

    monkeypatch.setattr(Store, "_replay", skips_some)
    assert "D5" in play(1, CALM).invariants


ILL = Scenario(
    nodes=1,
    sets={"db": 2},
    minutes=12,
    faults=0,
    actions=10,
    steps=tuple(PlanStep(100.0 + 40 * number, "fail-store", "server", 5.0) for number in range(6)),
)


def test_a_store_whose_log_fails_again_and_again_goes_on_with_what_is_durable():
    outcome = play(1, ILL)
    assert outcome.violations == []
    assert outcome.counts["plan.over"] == 6


def accepts_all(store: Any) -> None:
    return


async def learns_nothing(log: Any, after: int) -> Any:
    await RESUME(log, after)
    return []


RESUME = VolatileLog.resume


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "invariant"),
    [(Store, "_check_alive", accepts_all, "D7"), (VolatileLog, "resume", learns_nothing, "D5")],
)
def test_a_store_that_goes_on_otherwise_after_a_failure_is_found(
    owner: type, name: str, mutant: Any, invariant: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owner, name, mutant)
    assert invariant in play(1, ILL).invariants
