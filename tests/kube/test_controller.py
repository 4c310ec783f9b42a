"""What every controller does with its keys and with its errors."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from mooring.kube.controller import Controller
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.metrics import REGISTRY
from mooring.kube.objects import ConfigMap
from mooring.simulation.parts.faulty_transport import request

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


class Noting(Controller[str]):
    """Notes when it is asked to reconcile what; raises the errors that a test has put down."""

    name = "noting"

    def __init__(self, api: Any, **options: Any) -> None:
        super().__init__(api.client, now=api.now, random=Random(4))
        self.maps = self.watch(ConfigMap, lambda item: [item.name], **options)
        self.seen: list[tuple[str, float]] = []
        self.errors: list[Exception] = []

    async def reconcile(self, key: str) -> None:
        self.seen.append((key, asyncio.get_running_loop().time()))
        if self.errors:
            raise self.errors.pop(0)

    def times(self, key: str) -> list[float]:
        return [time for name, time in self.seen if name == key]


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_after_a_start_every_key_is_reconciled_once_and_then_what_changes(play: Play):
    async def story(api: Any):
        for name in ("a", "b"):
            await api.admin.create(ConfigMap, config_map(name), "default")
        controller = Noting(api)
        api.task = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        assert sorted(name for name, _ in controller.seen) == ["a", "b"]
        await api.admin.patch(ConfigMap, "b", {"data": {"x": "1"}}, "default")
        await api.admin.delete(ConfigMap, "a", "default")
        await asyncio.sleep(1)
        assert sorted(name for name, _ in controller.seen) == ["a", "a", "b", "b"]

    play(story)


def test_a_candidate_that_leads_at_last_begins_with_what_has_changed_last(play: Play):
    async def story(api: Any):
        for name in ("a", "b", "c"):
            await api.admin.create(ConfigMap, config_map(name), "default")
        controller = Noting(api)
        following = asyncio.create_task(controller.follow())
        await asyncio.sleep(1)
        await api.admin.patch(ConfigMap, "b", {"data": {"x": "1"}}, "default")
        await asyncio.sleep(1)
        api.task = asyncio.create_task(controller.lead())
        await asyncio.sleep(1)
        assert controller.seen[0][0] == "b"
        following.cancel()

    play(story)


def test_nothing_is_reconciled_before_all_caches_are_filled(play: Play):
    async def story(api: Any):
        await api.admin.create(ConfigMap, config_map("a"), "default")
        controller = Noting(api)
        controller.watch(ConfigMap)
        api.wire.hold(request("GET", "/configmaps")).release()
        second = api.wire.hold(request("GET", "/configmaps"))
        api.task = asyncio.create_task(controller.run())
        await second.arrived.wait()
        await asyncio.sleep(60)
        assert controller.seen == []
        second.release()
        await asyncio.sleep(1)
        assert controller.times("a")

    play(story)


def test_a_change_that_does_not_matter_marks_nothing(play: Play):
    async def story(api: Any):
        await api.admin.create(ConfigMap, config_map("a", x="1"), "default")
        controller = Noting(api, matters=lambda item: item.data.get("x"))
        api.task = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        await api.admin.patch(ConfigMap, "a", {"data": {"other": "1"}}, "default")
        await asyncio.sleep(1)
        assert len(controller.times("a")) == 1
        await api.admin.patch(ConfigMap, "a", {"data": {"x": "2"}}, "default")
        await asyncio.sleep(1)
        assert len(controller.times("a")) == 2

    play(story)


def test_what_was_decided_on_something_old_is_decided_again_soon_and_without_backoff(play: Play):
    async def story(api: Any):
        controller = Noting(api)
        controller.errors = [Conflict("c", status=409), NotFound("n", status=404), Conflict("c", status=409)]
        api.task = asyncio.create_task(controller.run())
        await api.admin.create(ConfigMap, config_map("a"), "default")
        await asyncio.sleep(60)
        times = controller.times("a")
        assert len(times) == 4
        assert all(0.02 <= later - earlier <= 0.06 for earlier, later in itertools.pairwise(times))

    play(story)


def test_where_the_cache_stays_late_it_is_tried_ever_more_slowly(play: Play):
    async def story(api: Any):
        controller = Noting(api)
        controller.errors = [Conflict("c", status=409) for _ in range(1000)]
        api.task = asyncio.create_task(controller.run())
        await api.admin.create(ConfigMap, config_map("a"), "default")
        await asyncio.sleep(60)
        between = [later - earlier for earlier, later in itertools.pairwise(controller.times("a"))]
        assert len(between) < 120
        assert min(between[-10:]) > 0.6 and max(between) < 1.7

    play(story)


def test_a_key_that_meets_conflicts_all_the_time_keeps_no_other_waiting(play: Play):
    """The scheduler has one worker: no other pod would be placed meanwhile."""

    async def story(api: Any):
        class OneWorker(Noting):
            workers = 1

            async def reconcile(self, key: str) -> None:
                if key == "a":
                    raise Conflict("c", status=409)
                await super().reconcile(key)

        controller = OneWorker(api)
        api.task = asyncio.create_task(controller.run())
        await api.admin.create(ConfigMap, config_map("a"), "default")
        await asyncio.sleep(60)
        created: list[float] = []
        for number in range(20):
            created.append(asyncio.get_running_loop().time())
            await api.admin.create(ConfigMap, config_map(f"b-{number}"), "default")
            await asyncio.sleep(0.3)
        done = [time for _, time in controller.seen]
        assert len(done) == 20
        assert max(later - earlier for earlier, later in zip(created, done, strict=True)) < 0.1

    play(story)


def test_a_rivals_writes_do_not_wake_a_key_that_has_just_met_a_conflict(play: Play):
    """Two that wake each other by writing could otherwise hinder each other for ever."""

    async def story(api: Any):
        controller = Noting(api)
        api.task = asyncio.create_task(controller.run())
        await api.admin.create(ConfigMap, config_map("a"), "default")
        await asyncio.sleep(1)
        controller.errors = [Conflict("c", status=409)]
        for value in range(5):
            await api.admin.patch(ConfigMap, "a", {"data": {"x": str(value)}}, "default")
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        assert len(controller.times("a")) == 3, "once at first, once with the conflict, once after it"

    play(story)


def test_any_other_error_brings_the_key_back_after_its_backoff(play: Play):
    async def story(api: Any):
        controller = Noting(api)
        controller.errors = [RuntimeError("broken"), RuntimeError("broken")]
        api.task = asyncio.create_task(controller.run())
        await api.admin.create(ConfigMap, config_map("a"), "default")
        await asyncio.sleep(60)
        times = controller.times("a")
        assert [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)] == [0.5, 1.0]

    play(story)


def test_of_a_controller_that_leads_no_more_nothing_waits(play: Play):
    """Another one takes its place; its keys would count as waiting for good."""

    async def story(api: Any):
        before = waiting()
        controller = Noting(api)
        controller.errors = [RuntimeError("broken")]
        api.task = asyncio.create_task(controller.run())
        await api.admin.create(ConfigMap, config_map("a"), "default")
        await asyncio.sleep(0.1)
        api.task.cancel()
        await asyncio.sleep(60)
        assert len(controller.times("a")) == 1
        assert waiting() == before

    play(story)


def waiting() -> float:
    return REGISTRY.get_sample_value("workqueue_depth", {"name": "noting"}) or 0.0


def test_a_long_wait_by_the_wall_clock_looks_at_that_clock_again_each_minute(play: Play):
    """The clock may be set meanwhile: a wait of an hour that an error of the clock has made ends with it."""

    async def story(api: Any):
        controller = Noting(api)
        api.task = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        controller.look_again("a", 3600.0)
        controller.look_again("b", 5.0)
        await asyncio.sleep(70)
        assert [round(each - began) for each in controller.times("a")] == [60]
        assert [round(each - began) for each in controller.times("b")] == [5]

    play(story)
