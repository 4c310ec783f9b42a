"""The client's guarantees, against the embedded API server."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from mooring.kube import errors
from mooring.kube.client import Client
from mooring.kube.objects import ConfigMap, Namespace, Node, Pod, ProjectedVolumeSource, StatefulSet
from mooring.kube.transport import InProcess, Request, Response
from mooring.simulation.parts.faulty_transport import request

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_a_write_of_a_part_leaves_alone_what_the_structs_do_not_know(play: Play):
    async def story(api: Any):
        pod = {
            "metadata": {"name": "p"},
            "spec": {
                "priority": 0,
                "dnsPolicy": "None",
                "dnsConfig": {"nameservers": ["192.0.2.1"]},
                "containers": [{"name": "c", "image": "i"}],
            },
        }
        made = await api.client.create(Pod, pod, "default")
        await api.client.patch(Pod, "p", {"metadata": {"labels": {"a": "b"}}}, "default", uid=made.uid)
        raw = msgspec.json.decode(await api.client.request("GET", "/api/v1/namespaces/default/pods/p"))
        assert raw["spec"]["dnsPolicy"] == "None"
        assert raw["metadata"]["labels"] == {"a": "b"}

    play(story)


def test_a_patch_with_the_uid_of_another_object_is_refused(play: Play):
    async def story(api: Any):
        first = await api.client.create(ConfigMap, config_map("m"), "default")
        await api.client.delete(ConfigMap, "m", "default")
        await api.client.create(ConfigMap, config_map("m"), "default")
        with pytest.raises(errors.Conflict):
            await api.client.patch(ConfigMap, "m", {"data": {"a": "1"}}, "default", uid=first.uid)

    play(story)


def test_a_patch_computed_from_an_older_version_is_refused(play: Play):
    async def story(api: Any):
        first = await api.client.create(ConfigMap, config_map("m"), "default")
        await api.client.patch(ConfigMap, "m", {"data": {"a": "1"}}, "default")
        with pytest.raises(errors.Conflict):
            await api.client.patch(
                ConfigMap,
                "m",
                {"data": {"a": "2"}},
                "default",
                resource_version=first.metadata.resource_version,
            )

    play(story)


def test_preconditions_of_a_patch_keep_the_metadata_that_it_changes(play: Play):
    async def story(api: Any):
        made = await api.client.create(ConfigMap, config_map("m"), "default")
        patch = {"metadata": {"annotations": {"a": "1"}}}
        done = await api.client.patch(
            ConfigMap, "m", patch, "default", uid=made.uid, resource_version=made.metadata.resource_version
        )
        assert done.metadata.annotations == {"a": "1"}
        assert patch == {"metadata": {"annotations": {"a": "1"}}}, "the caller's patch is not touched"

    play(story)


def test_a_deletion_carries_uid_and_version(play: Play):
    async def story(api: Any):
        made = await api.client.create(ConfigMap, config_map("m"), "default")
        for wrong in ({"uid": "other"}, {"resource_version": "1"}):
            with pytest.raises(errors.Conflict):
                await api.client.delete(ConfigMap, "m", "default", **wrong)
        await api.client.delete(
            ConfigMap, "m", "default", uid=made.uid, resource_version=made.metadata.resource_version
        )
        assert await api.client.find(ConfigMap, "m", "default") is None

    play(story)


def test_a_json_patch_says_its_preconditions_itself(play: Play):
    async def story(api: Any):
        await api.client.create(ConfigMap, config_map("m", a="1"), "default")
        patch = [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/data/a", "value": "2"},
        ]
        done = await api.client.patch(ConfigMap, "m", patch, "default", strategy="json")
        assert done.data == {"a": "2"}
        with pytest.raises(errors.Invalid):
            await api.client.patch(ConfigMap, "m", patch, "default", strategy="json")

    play(story)


def test_a_list_is_read_in_pages_and_is_true_at_one_version(play: Play):
    async def story(api: Any):
        for number in range(7):
            await api.admin.create(ConfigMap, config_map(f"m{number}"), "default")
        second = api.wire.hold(request("GET", "/configmaps", ""))
        second.release()
        between = api.wire.hold(request("GET", "/configmaps"))
        listing = asyncio.create_task(api.client.list(ConfigMap, "default", limit=3))
        await between.arrived.wait()
        await api.admin.create(ConfigMap, config_map("later"), "default")
        await api.admin.delete(ConfigMap, "m6", "default")
        between.release()
        found = await listing
        assert [item.name for item in found.items] == [f"m{number}" for number in range(7)]
        assert len(api.wire.sent) == 3
        newer = await api.admin.list(ConfigMap, "default")
        assert int(newer.resource_version) > int(found.resource_version)

    play(story)


def test_selectors_are_the_servers_work(play: Play):
    async def story(api: Any):
        for name in ("a", "b"):
            await api.admin.create(ConfigMap, {"metadata": {"name": name, "labels": {"n": name}}}, "default")
        by_label = await api.client.list(ConfigMap, "default", label_selector="n in (b)")
        by_field = await api.client.list(ConfigMap, "default", field_selector="metadata.name=a")
        assert [[item.name for item in each.items] for each in (by_label, by_field)] == [["b"], ["a"]]

    play(story)


def test_an_error_is_gone_when_it_was_seen(play: Play):
    """Garbage is collected seldom, and an error that holds itself holds the request, too."""

    async def story(api: Any):
        seen: list[weakref.ref[BaseException]] = []
        try:
            await api.client.get(Node, "n")
        except errors.NotFound as error:
            seen.append(weakref.ref(error))
        assert [each() for each in seen] == [None]

    gc.disable()
    try:
        play(story)
    finally:
        gc.enable()


def test_errors_name_what_was_tried(play: Play):
    async def story(api: Any):
        with pytest.raises(errors.NotFound, match=r"GET /api/v1/nodes/n: .*n.* not found"):
            await api.client.get(Node, "n")
        await api.client.create(Node, {"metadata": {"name": "n"}})
        with pytest.raises(errors.AlreadyExists, match="POST /api/v1/nodes: ") as caught:
            await api.client.create(Node, {"metadata": {"name": "n"}})
        assert isinstance(caught.value, errors.Conflict)
        with pytest.raises(errors.Invalid, match="Invalid value"):
            await api.client.create(Node, {"metadata": {"name": "Not a name"}})

    play(story)


def test_who_is_not_known_and_who_may_not_are_told_so(play: Play):
    async def story(api: Any):
        nobody = Client(InProcess(api.server.call, "wrong"))
        node = Client(InProcess(api.server.call, api.server.tokens.node("n")))
        with pytest.raises(errors.Unauthorized):
            await nobody.list(Node)
        with pytest.raises(errors.Forbidden):
            await node.delete(Node, "other")

    play(story)


def test_an_answer_that_never_came_says_nothing_about_the_effect(play: Play):
    async def story(api: Any):
        api.wire.unanswered(request("POST", "/configmaps"))
        with pytest.raises(errors.Unreachable):
            await api.client.create(ConfigMap, config_map("m"), "default")
        assert await api.client.find(ConfigMap, "m", "default") is not None

    play(story)


def test_a_watch_gives_changes_and_bookmarks_and_ends_when_its_time_is_over(play: Play):
    async def story(api: Any):
        made = await api.admin.create(ConfigMap, config_map("m"), "default")
        watch = api.client.watch(ConfigMap, resource_version=made.metadata.resource_version, timeout=200)
        await api.admin.patch(ConfigMap, "m", {"data": {"a": "1"}}, "default")
        await api.admin.delete(ConfigMap, "m", "default")
        seen = [event async for event in watch]
        assert [event.type for event in seen][:2] == ["MODIFIED", "DELETED"]
        assert {event.type for event in seen[2:]} == {"BOOKMARK"}
        versions = [int(event.resource_version) for event in seen]
        assert versions == sorted(versions)

    play(story)


class OneAnswer:
    """A transport with one answer to everything."""

    def __init__(self, status: int, body: bytes, pieces: list[bytes] | None = None) -> None:
        self.status, self.body, self.pieces = status, body, pieces
        self.closed = False

    async def send(self, request: Request) -> Response:
        return Response(self.status, {}, self.body, self.stream() if request.stream else None)

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces or ():
                yield piece
        finally:
            self.closed = True

    async def close(self) -> None:
        return


def test_an_error_event_ends_a_watch_with_the_error_of_its_code(run: Callable[[Any], Any]):
    async def story():
        event = {
            "type": "ERROR",
            "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
        }
        answers = OneAnswer(200, b"", [msgspec.json.encode(event) + b"\n"])
        with pytest.raises(errors.Gone, match="watch /api/v1/nodes: too old"):
            async for _ in Client(answers).watch(Node, resource_version="1"):
                pass
        assert answers.closed

    run(story())


def test_lines_of_a_watch_may_come_in_any_pieces(run: Callable[[Any], Any]):
    async def story():
        lines = b"".join(
            msgspec.json.encode(
                {"type": "ADDED", "object": {"metadata": {"name": name, "resourceVersion": "7"}}}
            )
            + b"\n"
            for name in ("a", "b")
        )
        pieces = [lines[at : at + 5] for at in range(0, len(lines), 5)]
        seen = [
            event async for event in Client(OneAnswer(200, b"", pieces)).watch(Node, resource_version="1")
        ]
        assert [event.object.name for event in seen if event.object] == ["a", "b"]

    run(story())


def test_a_watch_that_is_left_closes_its_stream(run: Callable[[Any], Any]):
    async def story():
        line = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
        answers = OneAnswer(200, b"", [line, line])
        watch = Client(answers).watch(Node, resource_version="1")
        await anext(watch)
        await watch.aclose()
        assert answers.closed

    run(story())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.BadRequest),
        (409, errors.Conflict),
        (410, errors.Gone),
        (415, errors.BadRequest),
        (422, errors.Invalid),
        (429, errors.Throttled),
        (500, errors.ServerError),
        (503, errors.ServerError),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[errors.ApiError]):
    found = errors.from_answer(status, b'{"message": "why", "reason": "R"}', tried="GET /x")
    assert type(found) is kind
    assert (str(found), found.status, found.reason) == ("GET /x: why", status, "R")


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"[]", b"\xff\xfe"])
def test_an_answer_that_is_no_status_still_gives_a_readable_error(body: bytes):
    assert str(errors.from_answer(502, body, tried="GET /x")).startswith("GET /x: ")


def test_a_version_that_the_server_has_not_come_to_has_an_error_of_its_own():
    answer = b'{"reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}'
    assert type(errors.from_answer(504, answer, tried="GET /x")) is errors.TooLargeVersion
    assert type(errors.from_answer(504, b'{"reason": "Timeout"}', tried="GET /x")) is errors.ServerError


def test_how_long_to_wait_when_throttled_is_the_servers_word():
    answer = b'{"details": {"retryAfterSeconds": 7}}'
    found = errors.from_answer(429, answer, tried="POST /x")
    assert isinstance(found, errors.Throttled)
    assert found.retry_after == 7


@pytest.mark.parametrize("said", ["86400", "9" * 400])
def test_a_proxy_that_wants_to_be_left_alone_for_a_day_keeps_no_cache_for_so_long(said: str):
    found = errors.from_answer(429, b"busy", tried="GET /x", retry_after=said)
    assert isinstance(found, errors.Throttled)
    assert found.retry_after == errors.LONGEST_REST_S


class Busy:
    """Answers 429 a number of times; notes when it was asked."""

    def __init__(self, inner: Any, times: int, headers: dict[str, str], body: bytes = b"{}") -> None:
        self.inner, self.left, self.headers, self.body = inner, times, headers, body
        self.asked: list[float] = []

    async def send(self, request: Request) -> Response:
        self.asked.append(asyncio.get_running_loop().time())
        if self.left:
            self.left -= 1
            return Response(429, self.headers, self.body)
        return await self.inner.send(request)


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "3"}, b"{}", 3.0),
        ({}, b'{"details": {"retryAfterSeconds": 4}}', 4.0),
        ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, b"{}", 1.0),
    ],
)
def test_a_throttled_read_is_tried_again_when_the_server_says(
    play: Play, headers: dict[str, str], body: bytes, seconds: float
):
    async def story(api: Any):
        busy = Busy(api.client.transport, 2, headers, body)
        await Client(busy).get(Namespace, "default")  # type: ignore[arg-type]
        assert [later - busy.asked[0] for later in busy.asked] == [0, seconds, 2 * seconds]

    play(story)


def test_a_read_that_stays_throttled_or_would_wait_long_is_an_error(play: Play):
    async def story(api: Any):
        for headers, attempts in (({"Retry-After": "1"}, 4), ({"Retry-After": "600"}, 1)):
            busy = Busy(api.client.transport, 99, headers)
            with pytest.raises(errors.Throttled) as caught:
                await Client(busy).list(Namespace)  # type: ignore[arg-type]
            assert len(busy.asked) == attempts
            assert caught.value.retry_after == float(headers["Retry-After"])

    play(story)


def test_a_throttled_write_is_the_callers_to_repeat(play: Play):
    async def story(api: Any):
        busy = Busy(api.client.transport, 1, {"Retry-After": "9"})
        with pytest.raises(errors.Throttled) as caught:
            await Client(busy).create(ConfigMap, {"metadata": {"name": "m"}}, "default")  # type: ignore[arg-type]
        assert (caught.value.retry_after, len(busy.asked)) == (9.0, 1)

    play(story)


def test_apply_creates_changes_and_removes_what_its_manager_owns(play: Play):
    async def story(api: Any):
        for data in ({"a": "1", "b": "1"}, {"a": "2"}):
            applied = await api.client.apply(ConfigMap, "m", {"data": data}, "default", field_manager="one")
            assert applied.data == data
        await api.client.patch(ConfigMap, "m", {"data": {"other": "1"}}, "default")
        assert (await api.client.apply(ConfigMap, "m", {}, "default", field_manager="one")).data == {
            "other": "1"
        }

    play(story)


def test_apply_on_anothers_field_is_a_conflict_that_names_it_unless_forced(play: Play):
    async def story(api: Any):
        await api.client.apply(ConfigMap, "m", {"data": {"a": "1"}}, "default", field_manager="one")
        with pytest.raises(errors.Conflict, match="one") as caught:
            await api.client.apply(ConfigMap, "m", {"data": {"a": "2"}}, "default", field_manager="two")
        assert [cause["field"] for cause in caught.value.details["causes"]] == [".data.a"]
        taken = await api.client.apply(
            ConfigMap, "m", {"data": {"a": "2"}}, "default", field_manager="two", force=True
        )
        assert taken.data == {"a": "2"}

    play(story)


def test_delete_collection_deletes_what_matches(play: Play):
    async def story(api: Any):
        for name in ("a", "b"):
            body = {"metadata": {"name": name, "labels": {"name": name}}}
            await api.client.create(ConfigMap, body, "default")
        await api.client.delete_collection(ConfigMap, "default", label_selector="name=a")
        assert [item.name for item in (await api.client.list(ConfigMap, "default")).items] == ["b"]

    play(story)


def test_a_subresource_of_another_kind_is_read_as_it_is(play: Play):
    async def story(api: Any):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {
            "serviceName": "s",
            "replicas": 3,
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
        }
        await api.client.create(StatefulSet, {"metadata": {"name": "s"}, "spec": spec}, "default")
        scale = msgspec.json.decode(
            await api.client.get_raw(StatefulSet, name="s", namespace="default", sub="scale")
        )
        assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})

    play(story)


PROJECTED = b'{"name":"all","projected":{"sources":null,"defaultMode":420}}'
"""A volume `projected: {}` as every API server of Kubernetes gives it back."""
POD = (
    b'{"metadata":{"name":"p","namespace":"n","resourceVersion":"7"},"spec":{"volumes":[' + PROJECTED + b"]}}"
)


def test_null_stands_for_nothing_as_go_writes_it(run: Callable[[Any], Any]):
    async def story():
        pod = await Client(OneAnswer(200, POD)).get(Pod, "p", "n")
        listed = await Client(
            OneAnswer(200, b'{"metadata":{"resourceVersion":"7"},"items":[' + POD + b"]}")
        ).list(Pod)
        line = b'{"type":"ADDED","object":' + POD + b"}\n"
        seen = [each.object async for each in Client(OneAnswer(200, b"", [line])).watch(Pod)]
        assert pod.spec.volumes[0].projected == ProjectedVolumeSource(default_mode=420)
        assert [pod] == listed.items == seen

    run(story())


def test_a_list_whose_items_are_null_is_empty(run: Callable[[Any], Any]):
    async def story():
        answer = b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"7"},"items":null}'
        assert await Client(OneAnswer(200, answer)).list(Pod) == ([], "7")

    run(story())


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b'{"metadata":{"name":7}}', b"\xff", b"[" * 9999])
def test_an_answer_that_cannot_be_read_says_nothing_of_the_effect(run: Callable[[Any], Any], body: bytes):
    async def story():
        with pytest.raises(errors.Unreadable, match="PATCH /api/v1/nodes/n: the answer"):
            await Client(OneAnswer(200, body)).patch(Node, "n", {})
        assert issubclass(errors.Unreadable, errors.Unreachable)

    run(story())


@pytest.mark.parametrize(
    ("line", "whose"),
    [
        (b'{"type":"ADDED","object":{"metadata":{"name":"p","namespace":"n"},"spec":[]}}', "n/p"),
        (b"no JSON", "of an unknown object"),
    ],
)
def test_of_an_event_that_cannot_be_read_the_error_says_whose_it_is(
    run: Callable[[Any], Any], line: bytes, whose: str
):
    async def story():
        with pytest.raises(errors.Unreadable, match=whose):
            async for _ in Client(OneAnswer(200, b"", [line + b"\n"])).watch(Pod):
                pass

    run(story())
