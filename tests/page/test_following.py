"""The page fed by an API server: what it reads, what it may not read, and that it never writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import msgspec
import page_cluster as made
import pytest
from virtual_server import not_stuck, started
from waiting import until

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.errors import NotSent
from mooring.kube.objects import Node, PersistentVolumeClaim
from mooring.kube.times import wall_clock
from mooring.kube.transport import Request, Response, Transport
from mooring.page.following import Following
from mooring.page.page import showing
from mooring.page.streams import Streams
from mooring.simulation.parts.faulty_transport import faulty_client

Run = Callable[[Coroutine[Any, Any, Any]], Any]
Now = Callable[[], datetime]
NODE = {"metadata": {"name": "n"}}
CLAIM = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


class Noted:
    """Notes each request; refuses the kinds of `forbidden`, and answers nothing while `down`."""

    def __init__(self, inner: Transport, forbidden: tuple[str, ...] = ()) -> None:
        self.inner, self.forbidden = inner, forbidden
        self.sent: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        if request.path.rpartition("/")[2] in self.forbidden:
            status = {"message": f"{request.path} is forbidden", "reason": "Forbidden", "code": 403}
            return Response(403, {}, msgspec.json.encode(status))
        return await self.inner.send(request)

    async def close(self) -> None:
        await self.inner.close()


class Stage:
    def __init__(self, server: Server, forbidden: tuple[str, ...]) -> None:
        self.api, self.wire = faulty_client(server)
        self.noted = Noted(self.api.transport, forbidden)
        self.model = made.model()
        self.streams = Streams(self.model)
        self.following = Following(Client(self.noted), self.model, self.streams.tell)  # type: ignore[arg-type]

    def rows(self, table: str) -> list[str]:
        return sorted(self.model.tables[table])


def play(run: Run, now: Now, story: Callable[[Stage], Coroutine[Any, Any, Any]], *forbidden: str) -> None:
    async def whole() -> None:
        stage = Stage(await started(now), forbidden)
        task = asyncio.create_task(stage.following.run())
        try:
            await story(stage)
        finally:
            task.cancel()

    run(not_stuck(whole()))


def test_what_is_there_is_shown_and_what_comes_is_history(run: Run, now: Now):
    async def story(stage: Stage):
        await stage.api.create(Node, NODE)
        await stage.following.begun.wait()
        assert stage.rows("nodes") == ["n"]
        assert list(stage.model.history) == []
        await stage.api.create(PersistentVolumeClaim, CLAIM, "default")
        await until(lambda: stage.rows("volumes") == ["claim default/c"], "the claim is shown")
        await until(lambda: "pvc/default/c" in stage.rows("stuck"), "and explained")
        assert stage.model.history.changes > 0

    play(run, now, story)


def test_it_lists_and_watches_and_nothing_else_and_no_secrets(run: Run, now: Now):
    async def story(stage: Stage):
        await stage.following.begun.wait()
        assert {request.method for request in stage.noted.sent} == {"GET"}
        assert not [request for request in stage.noted.sent if "secrets" in request.path]

    play(run, now, story)


@pytest.mark.parametrize("kind", ["events", "nodes", "volumeattachments", "storageclasses"])
def test_a_right_that_is_missing_is_said_and_the_rest_is_shown(run: Run, now: Now, kind: str):
    async def story(stage: Stage):
        await stage.api.create(PersistentVolumeClaim, CLAIM, "default")
        await stage.following.begun.wait()
        (said,) = stage.following.reads()
        assert (said["kind"], said["right"]) == (kind, "get, list, watch")
        assert stage.rows("volumes") == ["claim default/c"]
        assert stage.following.connected()

    play(run, now, story, kind)


def test_an_api_server_that_does_not_answer_is_said(run: Run, now: Now):
    async def story(stage: Stage):
        await stage.api.create(Node, NODE)
        stage.wire.down = True
        await until(lambda: not stage.following.connected(), "all kinds have met with that")
        assert stage.following.begun.is_set()
        assert not [each for each in stage.following.reads() if "right" in each]
        stage.wire.down = False
        await until(lambda: stage.rows("nodes") == ["n"], "nodes are shown")
        assert stage.following.connected()

    play(run, now, story)


def test_a_right_that_is_given_later_ends_that(run: Run, now: Now):
    async def story(stage: Stage):
        await stage.api.create(Node, NODE)
        await stage.following.begun.wait()
        assert stage.rows("nodes") == []
        stage.noted.forbidden = ()
        await until(lambda: stage.rows("nodes") == ["n"], "nodes are shown")
        assert stage.following.reads() == []

    play(run, now, story, "nodes")


async def test_the_client_that_the_page_is_given_is_only_read_with(monkeypatch: pytest.MonkeyPatch):
    clients: list[Client] = []
    original = Following.__init__

    def noted(self: Following, client: Client, *rest: Any) -> None:
        clients.append(client)
        original(self, client, *rest)

    monkeypatch.setattr(Following, "__init__", noted)
    server = await started(wall_clock)
    api, _ = faulty_client(server)
    async with showing(api, port=0, cluster="a cluster", now=wall_clock):
        with pytest.raises(NotSent):
            await clients[0].create(Node, NODE)
