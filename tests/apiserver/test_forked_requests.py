"""What is decided in a copy of the process is what would be decided in the process itself."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from mooring.apiserver import ADMIN, Request, Server
from mooring.apiserver.errors import TooLarge
from mooring.apiserver.transport import forked_requests
from mooring.apiserver.transport.forked_requests import Aside, in_copy

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    f"application/{each}"
    for each in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
DEFINITION = {
    "metadata": {"name": "things.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STORY: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", MAPS, MAP, {}),
    ("POST", MAPS, MAP, {}),
    ("POST", f"{MAPS}?dryRun=All", MAP | {"metadata": {"name": "dry"}}, {}),
    ("GET", f"{MAPS}/a", None, {}),
    ("PATCH", f"{MAPS}/a", {"data": {"l": "w"}}, {"content-type": MERGE}),
    (
        "PATCH",
        f"{MAPS}/a",
        [{"op": "copy", "from": "/data/k", "path": "/data/m"}],
        {"content-type": JSON_PATCH},
    ),
    ("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": ["a.b/c"]}}, {"content-type": STRATEGIC}),
    ("PATCH", f"{MAPS}/a?fieldManager=me&force=1", MAP | {"data": {"z": "z"}}, {"content-type": APPLY}),
    ("PUT", f"{MAPS}/a", MAP | {"metadata": {"name": "a", "resourceVersion": "1"}}, {}),
    ("DELETE", f"{MAPS}/a", None, {}),
    ("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, {"content-type": MERGE}),
    ("GET", f"{MAPS}/a", None, {}),
    (
        "POST",
        PODS,
        {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        {},
    ),
    ("GET", PODS, None, {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
    ("DELETE", PODS, None, {}),
    ("GET", "/apis", None, {}),
    ("POST", DEFINITIONS, DEFINITION, {}),
    (
        "POST",
        "/apis/x.io/v1/things",
        {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}},
        {},
    ),
    ("DELETE", f"{DEFINITIONS}/things.x.io", None, {}),
    ("GET", f"{DEFINITIONS}/things.x.io", None, {}),
    ("GET", "/api/v1/nosuch", None, {}),
    ("POST", MAPS, b"{", {}),
]


def _request(method: str, path: str, body: Any, headers: dict[str, str]) -> Request:
    path, _, query = path.partition("?")
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    pairs = [tuple(each.split("=")) for each in query.split("&") if each]
    return Request(method, path, pairs, headers, sent, ADMIN)  # type: ignore[arg-type]


class Unseeded(Random):
    """The same numbers in every copy, as in the process itself."""

    def seed(self, *_: Any, **__: Any) -> None:
        super().seed(7)


async def _server() -> Server:
    server = Server.in_memory(now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=Unseeded())
    await server.start()
    return server


async def test_a_copy_answers_and_writes_what_the_process_would() -> None:
    here, there = await _server(), await _server()
    beside = Aside(there)
    for step in STORY:
        here.random.seed()
        wanted, found = await here.handle(_request(*step)), await beside.answer(_request(*step))
        assert (found.status, found.body, dict(found.headers)) == (
            wanted.status,
            wanted.body,
            dict(wanted.headers),
        ), step
        assert there.store.version == here.store.version, step


@pytest.mark.parametrize("accept", ["application/vnd.kubernetes.protobuf", "application/yaml"])
async def test_a_write_is_answered_in_the_encoding_that_is_wanted(accept: str) -> None:
    here, there = await _server(), await _server()
    request = _request("POST", MAPS, MAP, {"accept": accept})
    here.random.seed()
    wanted, found = await here.handle(request), await Aside(there).answer(request)
    assert (found.body, found.headers) == (wanted.body, wanted.headers)


async def test_what_changed_meanwhile_is_decided_anew() -> None:
    server = await _server()
    beside = Aside(server)
    await server.handle(_request("POST", MAPS, MAP, {}))
    patches = [
        beside.answer(_request("PATCH", f"{MAPS}/a", {"data": {f"k{n}": "v"}}, {"content-type": MERGE}))
        for n in range(3)
    ]
    other = server.handle(_request("PATCH", f"{MAPS}/a", {"data": {"other": "v"}}, {"content-type": MERGE}))
    answers = await asyncio.gather(*patches, other)
    assert [answer.status for answer in answers] == [200] * 4
    stored = json.loads((await server.handle(_request("GET", f"{MAPS}/a", None, {}))).body)
    assert stored["data"].keys() == {"k", "k0", "k1", "k2", "other"}
    assert len({json.loads(answer.body)["metadata"]["resourceVersion"] for answer in answers}) == 4


async def test_objects_made_side_by_side_are_not_taken_for_one() -> None:
    server = Server.in_memory(random=Random(3))
    await server.start()
    beside = Aside(server)
    made = await asyncio.gather(
        *(beside.answer(_request("POST", MAPS, MAP | {"metadata": {"name": f"m{n}"}}, {})) for n in range(4))
    )
    assert len({json.loads(answer.body)["metadata"]["uid"] for answer in made}) == 4


async def test_a_copy_that_computes_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_requests, "CPU_S", 1)

    def spin() -> None:
        while True:
            pass

    with pytest.raises(TooLarge):
        await in_copy(spin)


async def test_a_copy_that_waits_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_requests, "PATIENCE_S", 0.2)
    with pytest.raises(TooLarge):
        await in_copy(lambda: time.sleep(3600))


async def test_a_copy_has_no_more_memory_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_requests, "MEMORY_BYTES", 64 * 1024 * 1024)
    assert len(await in_copy(lambda: b"x" * 2**20)) == 2**20
    with pytest.raises(TooLarge):
        await in_copy(lambda: len(b"x" * 2**28))


async def test_nothing_is_left_of_a_copy() -> None:
    before = set(os.listdir("/proc/self/fd"))
    await asyncio.gather(*(in_copy(os.getpid) for _ in range(8)))
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


async def test_a_request_too_many_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_requests, "WAITING", 2)
    beside = Aside(await _server())
    answers = await asyncio.gather(*(beside.answer(_request("GET", MAPS, None, {})) for _ in range(3)))
    assert sorted(answer.status for answer in answers) == [200, 200, 429]
    (refused,) = (answer for answer in answers if answer.status == 429)
    assert refused.headers["retry-after"] == "1"
