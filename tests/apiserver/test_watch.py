"""Watches: resume from any version in the window, never miss and never repeat, end cleanly."""

from __future__ import annotations

import asyncio

import pytest

from mooring.apiserver import Request

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def configmap(api, name, **labels):
    return await api.create(CONFIGMAPS, {"metadata": {"name": name, "labels": labels}})


def test_a_watch_resumes_after_the_version_it_names(serve):
    async def story(api):
        first = await configmap(api, "a")
        await configmap(api, "b")
        await api.delete(f"{CONFIGMAPS}/a")
        watch = await api.watch(CONFIGMAPS, ("resourceVersion", first["metadata"]["resourceVersion"]))
        assert await watch.take(2) == [("ADDED", "b"), ("DELETED", "a")]
        await api.patch(f"{CONFIGMAPS}/b", {"data": {"x": "y"}})
        event = await watch.next()
        assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"x": "y"})

    serve(story)


def test_a_watch_without_a_version_begins_with_what_is_there(serve):
    async def story(api):
        await configmap(api, "a")
        for query in ((), (("resourceVersion", "0"),)):
            watch = await api.watch(CONFIGMAPS, *query)
            assert await watch.take(1) == [("ADDED", "a")]
        await configmap(api, "b")
        assert await watch.take(1) == [("ADDED", "b")]

    serve(story)


def test_a_deletion_is_told_with_its_own_version(serve):
    async def story(api):
        made = await configmap(api, "a")
        watch = await api.watch(CONFIGMAPS, ("resourceVersion", made["metadata"]["resourceVersion"]))
        await api.delete(f"{CONFIGMAPS}/a")
        event = await watch.next()
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])

    serve(story)


def test_an_object_that_leaves_the_selection_is_deleted_for_it(serve):
    async def story(api):
        await configmap(api, "a", app="web")
        watch = await api.watch(CONFIGMAPS, ("labelSelector", "app=web"))
        await configmap(api, "b", app="db")
        for app in ("db", "web"):
            await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"app": app}}})
        await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
        assert await watch.take(4) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("MODIFIED", "a")]

    serve(story)


def test_a_node_sees_a_pod_come_when_it_is_bound(serve):
    async def story(api):
        watch = await api.watch("/api/v1/pods", ("fieldSelector", "spec.nodeName=n1"))
        await api.pod("other", node="n2")
        await api.pod("mine", node="n1")
        assert await watch.take(1) == [("ADDED", "mine")]

    serve(story)


def test_a_watch_of_one_namespace_does_not_tell_of_another(serve):
    async def story(api):
        watch = await api.watch(CONFIGMAPS)
        await api.create("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "x"}})
        await configmap(api, "a")
        assert await watch.take(1) == [("ADDED", "a")]

    serve(story)


def test_initial_events_end_with_a_marked_bookmark(serve):
    async def story(api):
        await configmap(api, "a")
        query = [
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
        ]
        watch = await api.watch(CONFIGMAPS, *query)
        assert await watch.take(1) == [("ADDED", "a")]
        mark = await watch.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert mark["object"]["metadata"]["resourceVersion"] == str(api.server.store.version)
        await configmap(api, "b")
        assert await watch.take(1) == [("ADDED", "b")]

    serve(story)


def test_a_quiet_watch_gets_bookmarks_with_the_versions_of_other_resources(serve):
    async def story(api):
        watch = await api.watch(PODS, ("resourceVersion", "1"), ("allowWatchBookmarks", "true"))
        await configmap(api, "a")
        mark = await watch.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"] == {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(api.server.store.version), "creationTimestamp": None},
        }

    serve(story)


def test_bookmarks_are_not_sent_unasked(serve):
    async def story(api):
        watch = await api.watch(PODS, ("resourceVersion", "1"), ("timeoutSeconds", "300"))
        assert await watch.rest() == []

    serve(story)


def test_a_watch_ends_after_its_time(serve):
    async def story(api):
        loop = asyncio.get_running_loop()
        begin = loop.time()
        watch = await api.watch(PODS, ("timeoutSeconds", "7"))
        await watch.rest()
        assert loop.time() == begin + 7
        watch = await api.watch(PODS)
        await watch.rest()
        assert 1800 <= loop.time() - begin - 7 <= 3600

    serve(story)


def test_a_version_that_has_left_the_window_is_gone(serve):
    async def story(api):
        api.server.store.window = 3
        for name in "abcd":
            await configmap(api, name)
        watch = await api.watch(CONFIGMAPS, ("resourceVersion", "1"))
        events = await watch.rest()
        assert [event["type"] for event in events] == ["ERROR"]
        status = events[0]["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"].startswith("too old resource version: 1 (")

    serve(story)


def test_a_slow_watcher_is_cut_off_and_others_are_not(serve):
    async def story(api):
        api.server.store.window = 5
        slow, quick = await api.watch(CONFIGMAPS), await api.watch(CONFIGMAPS)
        await configmap(api, "a")
        assert await slow.take(1) == await quick.take(1) == [("ADDED", "a")]
        for n in range(8):
            await api.patch(f"{CONFIGMAPS}/a", {"data": {"n": str(n)}})
            assert await quick.take(1) == [("MODIFIED", "a")]
        events = await slow.rest()
        assert [(event["type"], event["object"].get("code")) for event in events] == [("ERROR", 410)]

    serve(story)


def test_closing_a_watch_releases_it(serve):
    async def story(api):
        history = api.server.store.collection("configmaps").history
        watch = await api.watch(CONFIGMAPS)
        waiting = asyncio.create_task(watch.next())
        await asyncio.sleep(1)
        assert history.waiting == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await watch.close()
        assert history.waiting == 0

    serve(story)


def test_events_that_are_pending_come_in_one_piece(serve):
    async def story(api):
        for name in "abc":
            await configmap(api, name)
        answer = await api.server.handle(
            Request("GET", CONFIGMAPS, [("watch", "1"), ("resourceVersion", "1")], user=api.user)
        )
        piece = await anext(answer.stream)
        assert len(piece.splitlines()) == 3
        await answer.stream.aclose()

    serve(story)


@pytest.mark.parametrize(
    "query",
    [
        [("timeoutSeconds", "soon")],
        [("labelSelector", "!!")],
    ],
)
def test_a_watch_that_makes_no_sense_is_a_bad_request(serve, query):
    async def story(api):
        await api.refused(400, api.watch(PODS, *query))

    serve(story)


@pytest.mark.parametrize(
    "query", [[("sendInitialEvents", "true")], [("resourceVersionMatch", "NotOlderThan")]]
)
def test_parameters_of_a_watch_that_contradict_each_other_are_invalid(serve, query):
    async def story(api):
        await api.refused(422, api.watch(PODS, *query))

    serve(story)


def test_a_watch_can_be_of_metadata_or_of_table_rows(serve):
    async def story(api):
        await configmap(api, "a")
        for form, kind in (("PartialObjectMetadata", "PartialObjectMetadata"), ("Table", "Table")):
            headers = {"accept": f"application/json;as={form};v=v1;g=meta.k8s.io"}
            answer = await api.server.handle(
                Request("GET", CONFIGMAPS, [("watch", "1")], headers, user=api.user)
            )
            assert f'"kind":"{kind}"'.encode() in await anext(answer.stream)
            await answer.stream.aclose()

    serve(story)


def test_an_object_that_leaves_a_selection_is_told_as_it_was(serve):
    async def story(api):
        first = await configmap(api, "a", x="1")
        watch = await api.watch(CONFIGMAPS, ("labelSelector", "x=1"))
        assert await watch.take(1) == [("ADDED", "a")]
        moved = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"x": "2"}}})
        event = await watch.next()
        assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"x": "1"})
        assert event["object"]["metadata"]["resourceVersion"] == moved["metadata"]["resourceVersion"]
        assert int(moved["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])

    serve(story)


def test_the_end_of_a_grace_period_is_told_before_the_removal(serve):
    async def story(api):
        await api.pod(node="n")
        watch = await api.watch(PODS)
        await watch.next()
        await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})
        answer = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
        events = [await watch.next() for _ in range(3)]
        assert [(event["type"], event["object"]["metadata"]["deletionGracePeriodSeconds"]) for event in events] == [
            ("MODIFIED", 5), ("MODIFIED", 0), ("DELETED", 0),
        ]  # fmt: skip
        assert answer == events[-1]["object"]

    serve(story)


def test_a_removal_by_an_update_tells_the_last_state_that_was_stored(serve):
    async def story(api):
        await api.create(CONFIGMAPS, {"metadata": {"name": "a", "finalizers": ["a/b"]}})
        marked = await api.delete(f"{CONFIGMAPS}/a")
        watch = await api.watch(CONFIGMAPS)
        await watch.next()
        answer = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": None}})
        event = await watch.next()
        assert (event["type"], event["object"]["metadata"]["finalizers"]) == ("DELETED", ["a/b"])
        assert "finalizers" not in answer["metadata"]
        assert answer["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]

    serve(story)
