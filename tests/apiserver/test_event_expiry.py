"""Events are forgotten an hour after they were last written: else the store would grow for ever."""

from __future__ import annotations

import asyncio

from mooring.apiserver.requests.event_expiry import AT_ONCE, KEPT_S

EVENTS = "/api/v1/namespaces/default/events"


async def event(api, name):
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    await api.create(EVENTS, {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "count": 1})


async def names(api):
    return [each["metadata"]["name"] for each in (await api.get(EVENTS))["items"]]


def test_an_event_is_forgotten_an_hour_after_it_was_last_written(serve):
    async def story(api):
        await event(api, "once")
        await event(api, "again")
        await asyncio.sleep(KEPT_S - 60)
        await api.patch(f"{EVENTS}/again", {"count": 2})
        assert await names(api) == ["again", "once"]
        await asyncio.sleep(60)
        await event(api, "new")
        await api.server.store.settled()
        assert await names(api) == ["again", "new"]

    serve(story)


def test_who_watches_is_told(serve):
    async def story(api):
        await event(api, "old")
        watch = await api.watch(EVENTS)
        await asyncio.sleep(KEPT_S)
        await event(api, "new")
        assert (await watch.take(3))[0] == ("ADDED", "old")
        await watch.close()

    serve(story)


def test_a_burst_of_an_hour_ago_goes_little_by_little_and_what_is_gone_counts_no_more(serve):
    async def story(api):
        for number in range(AT_ONCE + 2):
            await event(api, f"e{number:02}")
        await api.delete(f"{EVENTS}/e00")
        await asyncio.sleep(KEPT_S)
        await event(api, "first")
        await api.server.store.settled()
        assert await names(api) == [f"e{AT_ONCE + 1:02}", "first"]
        await api.patch(f"{EVENTS}/first", {"count": 2})
        await api.server.store.settled()
        assert await names(api) == ["first"]

    serve(story)


def test_an_event_that_is_being_counted_up_stays(serve):
    async def story(api):
        await event(api, "counted")
        await asyncio.sleep(KEPT_S)
        await asyncio.gather(api.patch(f"{EVENTS}/counted", {"count": 2}), event(api, "new"))
        await api.server.store.settled()
        assert await names(api) == ["counted", "new"]

    serve(story)
