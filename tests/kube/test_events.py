"""Events: equal ones become one, and recording harms nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from wire import request

from mooring.kube.events import PENDING, Recorder
from mooring.kube.objects import Event, Node, ObjectMeta, Pod

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]

POD = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u1", resource_version="7"))
NODE = Node(metadata=ObjectMeta(name="n", uid="u2"))


def started(api: Any) -> Recorder:
    recorder = Recorder(api.client, "tester", now=api.now, random=Random(5), host="h")
    api.task = asyncio.create_task(recorder.run())
    return recorder


async def events(api: Any) -> list[Event]:
    return (await api.admin.list(Event)).items


def test_an_event_names_its_object_source_and_reason(play: Play):
    async def story(api: Any):
        recorder = started(api)
        recorder.event(POD, "Warning", "FailedMount", "no such disk")
        await recorder.flush()
        (event,) = await events(api)
        about = event.involved_object
        assert (about.kind, about.namespace, about.name, about.uid) == ("Pod", "default", "p", "u1")
        assert (event.type, event.reason, event.message, event.count) == ("Warning", "FailedMount", "no such disk", 1)
        assert (event.source.component, event.source.host) == ("tester", "h")
        assert event.first_timestamp == event.last_timestamp == "2030-01-01T00:00:00Z"

    play(story)


def test_events_of_objects_without_a_namespace_are_in_default(play: Play):
    async def story(api: Any):
        recorder = started(api)
        recorder.event(NODE, "Normal", "R", "m")
        await recorder.flush()
        assert [event.namespace for event in await events(api)] == ["default"]

    play(story)


def test_equal_events_become_one_with_a_count_and_the_last_time(play: Play):
    async def story(api: Any):
        recorder = started(api)
        for _ in range(3):
            recorder.event(POD, "Normal", "R", "m")
            await asyncio.sleep(60)
        recorder.event(POD, "Normal", "R", "other")
        recorder.event(NODE, "Normal", "R", "m")
        await recorder.flush()
        found = await events(api)
        assert sorted(event.count or 0 for event in found) == [1, 1, 3]
        counted = next(event for event in found if event.count == 3)
        assert counted.first_timestamp == "2030-01-01T00:00:00Z"
        assert counted.last_timestamp == "2030-01-01T00:02:00Z"

    play(story)


def test_an_equal_event_after_ten_minutes_is_a_new_one(play: Play):
    async def story(api: Any):
        recorder = started(api)
        for _ in range(2):
            recorder.event(POD, "Normal", "R", "m")
            await asyncio.sleep(601)
        await recorder.flush()
        assert [event.count for event in await events(api)] == [1, 1]

    play(story)


def test_an_event_that_was_deleted_is_written_anew(play: Play):
    async def story(api: Any):
        recorder = started(api)
        recorder.event(POD, "Normal", "R", "m")
        await recorder.flush()
        (event,) = await events(api)
        await api.admin.delete(Event, event.name, "default")
        recorder.event(POD, "Normal", "R", "m")
        await recorder.flush()
        assert [event.count for event in await events(api)] == [1]

    play(story)


def test_a_server_that_does_not_answer_is_tried_three_times(play: Play):
    async def story(api: Any):
        recorder = started(api)
        for _ in range(2):
            api.wire.lose(request("POST", "/events"))
        recorder.event(POD, "Normal", "R", "kept")
        await recorder.flush()
        for _ in range(3):
            api.wire.lose(request("POST", "/events"))
        recorder.event(POD, "Normal", "R", "lost")
        await recorder.flush()
        assert [event.message for event in await events(api)] == ["kept"]
        recorder.event(POD, "Normal", "R", "next")
        await recorder.flush()
        assert not api.task.done()

    play(story)


def test_an_event_that_is_refused_does_not_hold_up_the_next(play: Play):
    async def story(api: Any):
        recorder = started(api)
        lost = Pod(metadata=ObjectMeta(name="p", namespace="no-such-namespace", uid="u9"))
        recorder.event(lost, "Normal", "R", "refused")
        recorder.event(POD, "Normal", "R", "next")
        await recorder.flush()
        assert [event.message for event in await events(api)] == ["next"]

    play(story)


def test_recording_never_blocks_and_drops_what_is_too_much(play: Play):
    async def story(api: Any):
        recorder = Recorder(api.client, "tester", now=api.now, random=Random(5))
        for number in range(PENDING + 5):
            recorder.event(POD, "Normal", "R", f"m{number}")
        api.task = asyncio.create_task(recorder.run())
        await recorder.flush()
        assert len(await events(api)) == PENDING

    play(story)


def test_a_long_message_is_cut(play: Play):
    async def story(api: Any):
        recorder = started(api)
        recorder.event(POD, "Normal", "R", "x" * 5000)
        await recorder.flush()
        assert [len(event.message) for event in await events(api)] == [1024]

    play(story)
