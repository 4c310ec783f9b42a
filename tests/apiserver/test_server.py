"""The server's core as callers in the same process use it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from random import Random
from typing import Any

from mooring.apiserver import ADMIN, Request, Response, Server, Tokens
from mooring.apiserver.store.log import MemoryLog

Run = Callable[[Coroutine[Any, Any, Any]], Any]
PODS = "/api/v1/namespaces/default/pods"


def test_the_default_namespaces_are_there_and_stay_the_same(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        log = MemoryLog()
        first = Server(log, Tokens(b"x"), now=now, random=Random(1))
        await first.start()
        before = (await first.call("GET", "/api/v1/namespaces")).body
        again = Server(log, Tokens(b"x"), now=now, random=Random(2))
        await again.start()
        assert (await again.call("GET", "/api/v1/namespaces")).body == before
        for name in (b'"default"', b'"kube-system"', b'"kube-public"', b'"kube-node-lease"'):
            assert name in before

    run(story())


def test_the_same_seed_and_clock_make_the_same_objects(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> bytes:
        server = Server.in_memory(now=now, random=Random(7))
        await server.start()
        made = await server.call("POST", PODS, body={"metadata": {"generateName": "p-"}, "spec": POD})
        return made.body

    assert run(story()) == run(story())


POD = {"containers": [{"name": "c", "image": "x:1"}]}


def test_a_pods_log_comes_from_whoever_keeps_it(run: Run, now: Callable[[], datetime]) -> None:
    async def fetched(request: Request, pod: dict[str, Any]) -> Response:
        text = f"{pod['metadata']['name']} {request.parameter('container')}"
        return Response(200, {"content-type": "text/plain"}, text.encode())

    async def story() -> None:
        server = Server(MemoryLog(), Tokens(b"x"), now=now, random=Random(1), pod_logs=fetched)
        await server.start()
        await server.call("POST", PODS, body={"metadata": {"name": "p"}, "spec": POD})
        assert (await server.call("GET", f"{PODS}/p/log", [("container", "c")])).body == b"p c"
        assert (await server.call("GET", f"{PODS}/q/log")).status == 404

    run(story())


def test_a_store_that_failed_says_so_and_reads_go_on(run: Run, now: Callable[[], datetime]) -> None:
    class Failing(MemoryLog):
        full = False

        def append(self, batch: Any) -> None:
            if self.full:
                raise OSError("disk full")
            super().append(batch)

    async def story() -> None:
        log = Failing()
        server = Server(log, Tokens(b"x"), now=now, random=Random(1))
        await server.start()
        log.full = True
        for _ in range(2):
            answer = await server.call("POST", PODS, body={"metadata": {"name": "p"}, "spec": POD})
            assert answer.status == 503
            assert b"disk full" in answer.body
        answer = await server.handle(Request("GET", PODS, user=ADMIN))
        assert (answer.status, b'"items":[]' in answer.body) == (200, True)

    run(story())
