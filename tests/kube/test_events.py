"""Events: equal ones become one, and a failure to record one harms no controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
import structlog

from mooring.kube.events import PENDING, Recorder
from mooring.kube.objects import Event, Node, ObjectMeta, Pod
from mooring.kube.reason import Reason
from mooring.kube.transport import Request, Response
from mooring.simulation.parts.faulty_transport import request

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
        assert (event.type, event.reason, event.message, event.count) == (
            "Warning",
            "FailedMount",
            "no such disk",
            1,
        )
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
            recorder.event(POD, "Normal", f"R{number}", "m")
        api.task = asyncio.create_task(recorder.run())
        await recorder.flush()
        assert len(await events(api)) == PENDING

    play(story)


def test_what_is_dropped_is_said_once_and_counted(play: Play):
    async def story(api: Any):
        recorder = Recorder(api.client, "tester", now=api.now, random=Random(5))
        with structlog.testing.capture_logs() as logged:
            for number in range(PENDING + 3):
                recorder.event(POD, "Normal", "R", f"m{number}")
            api.task = asyncio.create_task(recorder.run())
            await recorder.flush()
            await asyncio.sleep(1)
            recorder.event(POD, "Normal", "Last", "m")
            await recorder.flush()
        assert [(each["event"], each.get("number")) for each in logged if each["log_level"] == "warning"] == [
            ("events are dropped: too many are waiting", None),
            ("events were dropped", 3),
        ]
        assert "Last" in {event.reason for event in await events(api)}

    play(story)


def test_a_long_message_is_cut(play: Play):
    async def story(api: Any):
        recorder = started(api)
        recorder.event(POD, "Normal", "R", "x" * 5000)
        await recorder.flush()
        assert [len(event.message) for event in await events(api)] == [1024]

    play(story)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_or_broken_is_tried_again(play: Play, status: int):
    async def story(api: Any):
        class Failing:
            def __init__(self, inner: Any) -> None:
                self.inner, self.times = inner, list[float]()

            async def send(self, request: Request) -> Response:
                self.times.append(asyncio.get_running_loop().time())
                if len(self.times) < 3:
                    return Response(status, {"Retry-After": "7"}, b"{}")
                return await self.inner.send(request)

        failing = api.client.transport = Failing(api.client.transport)
        recorder = started(api)
        recorder.event(POD, "Normal", "R", "kept")
        await recorder.flush()
        assert [event.message for event in await events(api)] == ["kept"]
        assert (failing.times[1] - failing.times[0] >= 7) == (status == 429)

    play(story)


def test_an_event_whose_answer_was_lost_is_written_once_and_counted_on(play: Play):
    async def story(api: Any):
        recorder = started(api)
        api.wire.unanswered(request("POST", "/events"))
        for _ in range(2):
            recorder.event(POD, "Normal", "R", "m")
        await recorder.flush()
        assert [event.count for event in await events(api)] == [2]

    play(story)


def test_recorders_with_equal_random_numbers_do_not_take_one_anothers_names(play: Play):
    async def story(api: Any):
        recorders = [Recorder(api.client, name, now=api.now, random=Random(5)) for name in ("one", "two")]
        api.tasks = [asyncio.create_task(recorder.run()) for recorder in recorders]
        for recorder in recorders:
            recorder.event(POD, "Normal", "R", "m")
            recorder.event(POD, "Normal", "R", "n")
            await recorder.flush()
        found = await events(api)
        assert sorted(event.source.component for event in found) == ["one", "one", "two", "two"]

    play(story)


def test_many_messages_of_one_reason_become_one_event_that_says_so(play: Play):
    async def story(api: Any):
        recorder = started(api)
        for number in range(50):
            recorder.event(POD, "Warning", "R", f"try {number}")
        recorder.event(POD, "Warning", "Other", "m")
        await recorder.flush()
        found = {event.message: event.count for event in await events(api)}
        assert len(found) == 11
        assert found["(combined from similar events): try 49"] == 41
        assert found["try 8"] == found["m"] == 1

    play(story)


def test_after_ten_quiet_minutes_messages_are_their_own_events_again(play: Play):
    async def story(api: Any):
        recorder = started(api)
        for number in range(20):
            recorder.event(POD, "Warning", "R", f"try {number}")
        await asyncio.sleep(601)
        recorder.event(POD, "Warning", "R", "later")
        await recorder.flush()
        assert "later" in [event.message for event in await events(api)]

    play(story)


def test_the_name_of_an_event_of_a_long_name_is_still_one(play: Play):
    async def story(api: Any):
        recorder = started(api)
        recorder.event(
            Pod(metadata=ObjectMeta(name="p" * 253, namespace="default", uid="u")), "Normal", "R", "m"
        )
        await recorder.flush()
        assert [len(event.name) for event in await events(api)] == [253]

    play(story)


def test_what_is_said_once_of_one_matter_is_not_said_again_because_of_another_matter_of_the_same_object(
    play: Play,
):
    async def story(api: Any):
        recorder = started(api)
        waits, heard = Reason("Waits", "for a pod"), Reason("Heard", "by n1")
        for _ in range(2):
            recorder.once(NODE, "Warning", waits, matter="deletion")
            recorder.once(NODE, "Warning", heard)
        await recorder.flush()
        assert [(event.reason, event.count) for event in await events(api)] == [("Waits", 1), ("Heard", 1)]

    play(story)


def test_what_was_so_before_something_else_was_is_said_anew(play: Play):
    async def story(api: Any):
        recorder = started(api)
        for code in ("Waits", "Heard", "Waits"):
            recorder.once(NODE, "Warning", Reason(code, "m"), matter="deletion")
        await recorder.flush()
        assert {event.reason: event.count for event in await events(api)} == {"Waits": 2, "Heard": 1}

    play(story)
