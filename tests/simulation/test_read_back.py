"""What a reader is answered that asks for a version is compared with what was durable then."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.errors import Expired
from mooring.apiserver.requests.reads import Reader
from mooring.apiserver.store.object_store import Store
from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.checks.read_back import ReadsAreTrue
from mooring.simulation.checks.stored import Model
from mooring.simulation.cluster.readers import EXACTLY, IN_PAGES, NOT_OLDER, ONE, WAYS, Window
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.engine.trace import Trace
from mooring.simulation.run import play

READS = tuple(
    PlanStep(200.0 + 5 * number, "read-back", "api", back, 4 * way)
    for number, (back, way) in enumerate(
        (back, way) for back in (-5.0, 0.0, 5.0, 90.0) for way in range(WAYS)
    )
)
CALM = Scenario(nodes=1, sets={"db": 2}, minutes=12, faults=0, actions=10, history=40, steps=READS)
WEB, DB = ("default", "web"), ("default", "db")
NOW = Window(2, 8)


def complaints(way: int, asked: int, status: int, version: int = 0, **others: Any) -> list[str]:
    """Of one answer, while the store went from version 6 to 8, and had forgotten what was before 2."""
    found: list[str] = []
    trace, model = Trace(lambda: 0.0), Model()
    note: Found = lambda name, words, event: found.append(f"{name} {words}")  # noqa: E731
    ReadsAreTrue(trace, model, note)
    for number, key in ((3, WEB), (5, DB), (8, WEB)):
        model.add("pods", key, number, b"", deleted=number == 8)
    fields = {"_began": Window(2, 6), "_ended": NOW, "_items": None, **others}
    trace(
        "user", "told.read", resource="pods", way=way, asked=asked, status=status, version=version, **fields
    )
    return found


@pytest.mark.parametrize(
    ("way", "asked", "status", "version", "items"),
    [
        (EXACTLY, 5, 200, 5, {WEB: 3, DB: 5}),
        (EXACTLY, 1, 410, 0, None),
        (EXACTLY, 9, 504, 0, None),
        (EXACTLY, 7, 504, 0, None),
        (NOT_OLDER, 1, 200, 7, {WEB: 3, DB: 5}),
        (NOT_OLDER, 5, 200, 8, {DB: 5}),
        (NOT_OLDER, 9, 504, 0, None),
        (IN_PAGES, 0, 200, 6, None),
        (IN_PAGES, 5, 200, 5, {WEB: 3, DB: 5}),
        (IN_PAGES, 1, 410, 0, None),
        (ONE, 9, 504, 0, None),
        (ONE, 5, 404, 0, None),
        (EXACTLY, 5, 503, 0, None),
    ],
)
def test_what_was_durable_and_what_is_refused_rightly_is_as_it_should_be(
    way: int, asked: int, status: int, version: int, items: Any
):
    assert complaints(way, asked, status, version, _items=items) == []


@pytest.mark.parametrize(
    ("way", "asked", "status", "version", "items"),
    [
        (EXACTLY, 5, 200, 5, {WEB: 3}),
        (EXACTLY, 5, 200, 5, {WEB: 3, DB: 4}),
        (EXACTLY, 5, 200, 6, {WEB: 3, DB: 5}),
        (EXACTLY, 5, 410, 0, None),
        (EXACTLY, 1, 200, 1, {}),
        (EXACTLY, 9, 200, 9, {DB: 5}),
        (EXACTLY, 6, 504, 0, None),
        (EXACTLY, 5, 404, 0, None),
        (NOT_OLDER, 1, 410, 0, None),
        (NOT_OLDER, 5, 200, 5, {WEB: 3, DB: 5}),
        (NOT_OLDER, 9, 200, 8, {DB: 5}),
        (IN_PAGES, 5, 200, 8, {DB: 5}),
        (IN_PAGES, 5, 410, 0, None),
        (ONE, 9, 404, 0, None),
    ],
)
def test_what_was_not_so_is_found(way: int, asked: int, status: int, version: int, items: Any):
    assert complaints(way, asked, status, version, _items=items)


def test_a_run_reads_back_in_every_way_and_finds_what_was_there():
    outcome = play(1, CALM)
    assert outcome.violations == []
    assert outcome.guarded["D8"] > len(READS)


def knows_no_future(store: Any, version: int) -> None:
    return


def shows_the_present(store: Any, resource: str, version: int | None = None) -> Any:
    return store.collection(resource).current()


def is_gone_too_early(reader: Any, route: Any, version: int, page: Any) -> Any:
    if version < reader._store.version:
        raise Expired("")
    return reader._store.list(route.kind.storage, version)


def never_looks_for_the_future(reader: Any, request: Any) -> int:
    return reader._store.version


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (Store, "check_not_future", knows_no_future),
        (Store, "list", shows_the_present),
        (Reader, "_items", is_gone_too_early),
        (Reader, "_list_version", never_looks_for_the_future),
    ],
)
def test_a_server_that_answers_otherwise_is_found(
    owner: type, name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(owner, name, mutant)
    assert "D8" in play(1, CALM).invariants
