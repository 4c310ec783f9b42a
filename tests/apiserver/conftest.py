"""A server in memory, and short words for talking to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from virtual_server import started

from mooring.apiserver import ADMIN, Request, Server, User

Obj = dict[str, Any]
PATCHES = {"json": "json-patch+json", "merge": "merge-patch+json", "strategic": "strategic-merge-patch+json"}
PODS = "/api/v1/namespaces/default/pods"


class Refused(Exception):
    """A request that was not answered with 2xx."""

    def __init__(self, code: int, status: Obj) -> None:
        super().__init__(f"{code} {status.get('message')}")
        self.code = code
        self.status = status
        self.message = str(status.get("message", ""))
        self.reason = status.get("reason")


class Watch:
    """The events of one watch, one at a time."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._pending: list[Obj] = []

    async def next(self) -> Obj:
        while not self._pending:
            chunk = await anext(self._stream)
            self._pending = [json.loads(line) for line in chunk.splitlines()]
        return self._pending.pop(0)

    async def take(self, count: int) -> list[tuple[str, str]]:
        """The next events as pairs of type and name."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> list[Obj]:
        """Every event until the stream ends."""
        found, self._pending = self._pending, []
        async for chunk in self._stream:
            found += [json.loads(line) for line in chunk.splitlines()]
        return found

    async def close(self) -> None:
        await self._stream.aclose()  # type: ignore[attr-defined]


class Api:
    """A client of one server in this process. Raises `Refused` for anything but 2xx."""

    def __init__(self, server: Server, user: User = ADMIN) -> None:
        self.server = server
        self.user = user

    def acting_as(self, user: User) -> Api:
        return Api(self.server, user)

    async def send(
        self, method: str, path: str, body: Any = None, query: Sequence[tuple[str, str]] = (), **headers: str
    ) -> Obj:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.server.handle(Request(method, path, query, named, data, self.user))
        if answer.headers["content-type"].startswith("text/plain"):
            raise Refused(answer.status, {"message": answer.body.decode(), "code": answer.status})
        decoded = json.loads(answer.body)
        if answer.status >= 300:
            raise Refused(answer.status, decoded)
        return decoded

    async def get(self, path: str, *query: tuple[str, str], **headers: str) -> Obj:
        return await self.send("GET", path, None, query, **headers)

    async def names(self, path: str, *query: tuple[str, str]) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.get(path, *query))["items"]]

    async def create(self, path: str, body: Obj, *query: tuple[str, str]) -> Obj:
        return await self.send("POST", path, body, query)

    async def replace(self, path: str, body: Obj) -> Obj:
        return await self.send("PUT", path, body)

    async def patch(self, path: str, body: Any, kind: str = "merge", *query: tuple[str, str]) -> Obj:
        return await self.send("PATCH", path, body, query, content_type=f"application/{PATCHES[kind]}")

    async def delete(self, path: str, body: Obj | None = None) -> Obj:
        return await self.send("DELETE", path, body)

    async def watch(self, path: str, *query: tuple[str, str]) -> Watch:
        answer = await self.server.handle(Request("GET", path, [("watch", "1"), *query], user=self.user))
        if answer.stream is None:
            raise Refused(answer.status, json.loads(answer.body))
        return Watch(answer.stream)

    async def pod(self, name: str = "p", node: str = "", **metadata: Any) -> Obj:
        """Create a pod in the default namespace, bound to `node` if one is given."""
        created = await self.create(PODS, self.new_pod(name, **metadata))
        if not node:
            return created
        await self.create(f"{PODS}/{name}/binding", {"target": {"name": node}})
        return await self.get(f"{PODS}/{name}")

    async def refused(self, code: int, request: Awaitable[Any]) -> Refused:
        """The refusal of a request, which must have this code."""
        try:
            await request
        except Refused as refusal:
            assert refusal.code == code, refusal
            assert refusal.status["code"] == code
            return refusal
        raise AssertionError(f"the request was granted instead of refused with {code}")

    @staticmethod
    def new_pod(name: str = "p", **metadata: Any) -> Obj:
        containers = [{"name": "c", "image": "busybox:1"}]
        return {"metadata": {"name": name, **metadata}, "spec": {"containers": containers}}

    @staticmethod
    def new_claim(name: str = "data", size: str = "1Gi", **spec: Any) -> Obj:
        requests = {"requests": {"storage": size}}
        return {
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests, **spec},
        }

    @staticmethod
    def new_volume(name: str = "pv", **spec: Any) -> Obj:
        source = {"csi": {"driver": "d", "volumeHandle": "h"}}
        required = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
        return {"metadata": {"name": name}, "spec": {**required, **source, **spec}}

    @staticmethod
    def new_attachment(name: str = "va", **metadata: Any) -> Obj:
        spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
        return {"metadata": {"name": name, **metadata}, "spec": spec}

    @staticmethod
    def new_statefulset(name: str = "web", **spec: Any) -> Obj:
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
        return {
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
        }


@pytest.fixture
def serve(
    run: Callable[[Awaitable[Any]], Any], now: Callable[[], datetime]
) -> Callable[[Callable[[Api], Awaitable[Any]]], Any]:
    """Runs a story, a coroutine function of an `Api`, against a fresh server in virtual time."""

    def play(story: Callable[[Api], Awaitable[Any]]) -> Any:
        async def on_server() -> Any:
            return await story(Api(await started(now)))

        return run(on_server())

    return play
