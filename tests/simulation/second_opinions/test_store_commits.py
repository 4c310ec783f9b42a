"""Second opinions about what the store remembers, and whom it has told, when a commit is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from opinions import objections
from tests.conftest import run_in_virtual_time

from mooring.apiserver.errors import StoreFailed
from mooring.apiserver.store.history import Change, History, Item
from mooring.apiserver.store.object_store import Store
from mooring.simulation.checks.second_opinions import store_commits
from mooring.simulation.parts.store_log import VolatileLog

PODS, WEB, DB = "pods", ("default", "web"), ("default", "db")


def pod(name: str = "web") -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name, "uid": name}}


def fields(resource: str, obj: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


class Stage:
    """A store whose disk may fail. Which batches are kept then is drawn."""

    def __init__(self, seed: int = 0, window: int = 100) -> None:
        self.log = VolatileLog(Random(seed), journal=lambda record: None)
        self.store = Store(self.log, fields, window=window)

    def write(self, name: str = "web") -> asyncio.Future[Item]:
        return self.store.write(PODS, ("default", name), pod(name))

    async def fail(self) -> None:
        """A write whose outcome is not known."""
        self.log.broken = True
        with suppress(StoreFailed):
            await self.write()

    async def mend(self) -> None:
        self.log.broken = False
        await asyncio.sleep(5)


def heard(story: Callable[[Stage], Awaitable[None]], seed: int = 0, window: int = 100) -> list[str]:
    async def whole() -> None:
        await story(Stage(seed, window))

    with objections(store_commits.QUESTIONS) as found:
        run_in_virtual_time(whole())
    return found


async def fails_and_goes_on(stage: Stage) -> None:
    """With a reader that waits for changes."""
    await stage.write()
    waits = asyncio.create_task(stage.store.watch(PODS, stage.store.version).changed())
    await stage.fail()
    await stage.mend()
    await stage.write("db")
    await waits


@pytest.mark.parametrize("seed", range(4))
def test_a_store_that_fails_and_goes_on_is_not_objected_to(seed: int) -> None:
    assert heard(fails_and_goes_on, seed, window=1) == []


KEPT = next(seed for seed in range(9) if Random(seed).random() < 0.5)
"""The batch that fails is durable after all."""


@pytest.mark.parametrize(
    ("owner", "name", "words"),
    [
        (History, "wake", "readers wait"),
        (Store, "_evict", "more than the window has"),
    ],
)
def test_what_is_not_done_when_the_log_resumes_is_objected_to(owner: type, name: str, words: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.write()
        waits = asyncio.create_task(stage.store.watch(PODS, stage.store.version).changed())
        await stage.fail()
        with pytest.MonkeyPatch.context() as mutated:
            mutated.setattr(owner, name, lambda one: None)
            await stage.mend()
        waits.cancel()

    assert any(words in each for each in heard(story, KEPT, window=1))


def test_a_log_that_is_not_tried_again_is_objected_to() -> None:
    async def nothing(store: Store) -> None:
        return

    async def story(stage: Stage) -> None:
        with pytest.MonkeyPatch.context() as mutated:
            mutated.setattr(Store, "_resume", nothing)
            await stage.fail()
            await asyncio.sleep(1)
        found = [*store_commits.committed(None, stage.store), *store_commits.goes_on(None, stage.store)]
        assert len(found) == 2

    run_in_virtual_time(_with(story))


async def _with(story: Callable[[Stage], Awaitable[None]]) -> None:
    await story(Stage())


def test_heads_that_are_kept_or_forgotten_are_objected_to() -> None:
    async def story(stage: Stage) -> None:
        heads: dict[Any, Change] = vars(stage.store)["_heads"]
        done = stage.write()
        assert [*store_commits.wrong_heads(stage.store)] == []
        assert [*store_commits.published(None, stage.store, vars(stage.store)["_batch"])], "its writer waits"
        change = heads.pop((PODS, WEB))
        assert [*store_commits.wrong_heads(stage.store)], "it is forgotten"
        heads[PODS, WEB] = Change(change.type, change.item, None)
        assert [*store_commits.wrong_heads(stage.store)], "it is an older one"
        heads[PODS, WEB] = change
        await done
        heads[PODS, WEB] = change
        assert [*store_commits.wrong_heads(stage.store)], "it is durable"

    run_in_virtual_time(_with(story))


def test_a_writer_that_is_not_told_of_a_failure_is_objected_to() -> None:
    async def story(stage: Stage) -> None:
        stage.write()
        writes = [*vars(stage.store)["_batch"]]
        found = [*store_commits.failed(None, stage.store, OSError(), writes)]
        assert len(found) == 2, "writes are accepted, and one is not told"
        await stage.store.settled()

    run_in_virtual_time(_with(story))


def test_who_is_not_woken_and_what_is_not_cut_off_is_objected_to() -> None:
    async def story(stage: Stage) -> None:
        history = History()
        waits = asyncio.create_task(history.changed())
        await asyncio.sleep(0)
        before = store_commits.waiters(history)
        assert [*store_commits.woken(None, before, history)]
        history.wake()
        assert not [*store_commits.woken(None, before, history)]
        await waits
        vars(history)["_changes"][:] = range(20)
        for dead, objected in ((1, False), (2, True), (3, True)):
            vars(history)["_dead"] = dead
            assert bool([*store_commits.forgotten(None, history)]) == objected  # type: ignore[arg-type]

    run_in_virtual_time(_with(story))
