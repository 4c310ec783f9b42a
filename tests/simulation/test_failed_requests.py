"""What a controller's work leaves failed is told; what it tries again, or ends with, is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mooring.kube.controller import Controller
from mooring.kube.objects import Pod
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.transport import Request, Response
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.failed_requests import note_answer, note_failure, tell_of_failures

POD = "/api/v1/namespaces/default/pods/a"
WRITE, READ = Request("PATCH", f"{POD}/status"), Request("GET", POD)


class Cache:
    """Of pods. `version`: of which one the cache has the pod a; "": it has none."""

    kind = Pod

    def __init__(self, version: str = "1") -> None:
        self.version = version

    def get(self, key: str) -> Pod | None:
        there = key == "default/a" and self.version
        return Pod(metadata=ObjectMeta(name="a", resource_version=self.version)) if there else None


def left_failed(work: Callable[[], None], cache: Cache | None = None) -> list[str]:
    """What the trace is told of: each request that was left failed, "" for none."""
    trace, told = Trace(lambda: 0.0), list[str]()
    trace.listen("told.worked", lambda event: told.append(event.fields["request"]))

    async def reconcile(key: str) -> None:
        work()

    controller = SimpleNamespace(name="c", reconcile=reconcile, caches=(cache or Cache(),))
    tell_of_failures(cast("Controller[Any]", controller), trace, "p")
    reconciled = cast("Callable[[str], Awaitable[None]]", controller.reconcile)

    async def play() -> None:
        await asyncio.gather(reconciled("k"), return_exceptions=True)

    asyncio.run(play())
    return told


def steps(*taken: tuple[Request, int]) -> Callable[[], None]:
    """Requests, each with the status of its answer; 0: there is none."""

    def work() -> None:
        for request, status in taken:
            note_answer(request, Response(status, {})) if status else note_failure(request)

    return work


@pytest.mark.parametrize("status", [0, 409, 429, 500, 503])
def test_work_that_ends_well_after_a_failed_request_is_told_with_it(status: int):
    assert left_failed(steps((WRITE, status))) == ["PATCH pods/status"]


def test_work_that_looks_at_the_object_again_has_left_nothing_failed():
    assert left_failed(steps((WRITE, 0), (READ, 200))) == [""]
    assert left_failed(steps((WRITE, 0), (Request("GET", f"{POD}b"), 200))) == ["PATCH pods/status"]


@pytest.mark.parametrize("version", ["2", ""])
def test_work_that_goes_on_from_what_a_watch_has_told_since_has_left_nothing_failed(version: str):
    cache = Cache()

    def work() -> None:
        note_answer(WRITE, Response(409, {}))
        cache.version = version

    assert left_failed(work, cache) == [""]


def test_work_may_know_already_what_its_write_was_refused_for():
    write = Request("PATCH", POD, body=b'{"metadata":{"resourceVersion":"4"}}')
    assert left_failed(steps((write, 409)), Cache("5")) == [""]
    assert left_failed(steps((write, 409)), Cache("4")) == ["PATCH pods"]
    assert left_failed(steps((write, 500)), Cache("5")) == ["PATCH pods"]


def test_work_that_ends_with_the_error_is_tried_again():
    def work() -> None:
        note_failure(WRITE)
        raise ConnectionError

    assert left_failed(work) == [""]


def test_an_answer_that_says_what_is_there_is_no_failure():
    assert left_failed(steps((WRITE, 404), (Request("POST", "/api/v1/nodes"), 409))) == []


def test_events_that_people_read_may_be_lost():
    assert left_failed(steps((Request("POST", "/api/v1/namespaces/default/events"), 0))) == []
