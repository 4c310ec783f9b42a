"""What production code catches and goes on with is in the trace, with the exception: P2 judges it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from mooring.apiserver import Server
from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.raised import overheard
from mooring.simulation.run import Outcome, play

QUIET = Scenario(nodes=1, sets={"db": 1}, minutes=6, faults=0, actions=0)


def p2(outcome: Outcome) -> list[str]:
    return [each for each in outcome.violations if each.startswith("P2 ")]


def test_a_quiet_run_raises_nothing_that_is_not_expected():
    assert p2(play(0, QUIET)) == []


def test_what_a_reconcile_raises_is_found_though_it_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    async def fails(*args: Any) -> None:
        min([])

    monkeypatch.setattr(StatefulSetController, "_update_status", fails)
    (found,) = p2(play(0, QUIET))
    assert "placing: work failed: ValueError" in found


def test_what_the_api_server_raises_is_found_though_it_is_answered(monkeypatch: pytest.MonkeyPatch):
    handle = Server.handle

    async def fails(self: Server, request: Any) -> Any:
        if request.path.endswith("/statefulsets/db/status"):
            raise KeyError("status")
        return await handle(self, request)

    monkeypatch.setattr(Server, "handle", fails)
    (found,) = p2(play(0, QUIET))
    assert "apiserver: request failed: KeyError" in found


def test_a_task_that_fails_unheard_is_found(monkeypatch: pytest.MonkeyPatch):
    update = StatefulSetController.reconcile

    async def fails(self: StatefulSetController, key: str) -> None:
        async def alone() -> None:
            raise TypeError(key)

        asyncio.get_running_loop().create_task(alone())
        await update(self, key)

    monkeypatch.setattr(StatefulSetController, "reconcile", fails)
    assert any("a task that is not waited for: TypeError" in each for each in p2(play(0, QUIET)))


def test_only_what_a_log_says_of_an_exception_is_heard():
    heard: list[tuple[str, BaseException]] = []
    log, caught = structlog.get_logger(), OSError("no device")
    with overheard(lambda where, error: heard.append((where, error))):
        log.warning("a plain warning")
        log.error("given", exc_info=caught)
        try:
            raise caught
        except OSError:
            log.info("not serious")
            log.warning("handled")
    assert heard == [("given", caught), ("handled", caught)]
