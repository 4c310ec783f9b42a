"""What a client is told of an object stays so if the server crashes then: also when its write is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from noted_log import A, NotedLog, SlowLog, no_fields, thing

from mooring.apiserver import ADMIN, Request, Server, Tokens
from mooring.apiserver.store.log import Log
from mooring.apiserver.store.object_store import Store
from mooring.apiserver.transport.forked_requests import Aside

Run = Callable[[Coroutine[Any, Any, Any]], Any]
MAPS = "/api/v1/namespaces/default/configmaps"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}
MAP = {"metadata": {"name": "a"}}

REFUSED = [
    pytest.param(("DELETE", f"{MAPS}/a"), ("DELETE", f"{MAPS}/a"), 404, id="deleted"),
    pytest.param(("DELETE", f"{MAPS}/a"), ("PATCH", f"{MAPS}/a", {}), 404, id="patched when it is gone"),
    pytest.param(
        ("POST", MAPS, {"metadata": {"name": "b"}}), ("POST", MAPS, {"metadata": {"name": "b"}}), 409
    ),
    pytest.param(
        ("PATCH", f"{MAPS}/a", {"data": {"k": "v"}}),
        ("PATCH", f"{MAPS}/a", {"metadata": {"resourceVersion": "1"}, "data": {"k": "w"}}),
        409,
        id="changed meanwhile",
    ),
    pytest.param(
        ("POST", PODS, POD | {"metadata": {"name": "b"}}),
        ("POST", f"{PODS}/b/eviction", {"metadata": {"name": "c"}}),
        400,
        id="an eviction",
    ),
]


async def serving(log: Log, now: Callable[[], datetime]) -> Server:
    server = Server(log, Tokens(b"x"), now=now, random=Random(1))
    await server.start()
    assert (await server.call("POST", MAPS, body=MAP)).status == 201
    return server


def asked(server: Server, method: str, path: str, body: Any = b"") -> asyncio.Task[Any]:
    return asyncio.create_task(
        server.call(method, path, headers=MERGE if method == "PATCH" else {}, body=body)
    )


@pytest.mark.parametrize(("first", "second", "status"), REFUSED)
def test_a_refusal_waits_until_that_is_durable_upon_which_it_was_decided(
    run: Run, now: Callable[[], datetime], first: Any, second: Any, status: int
):
    async def story() -> None:
        server = await serving(SlowLog(), now)
        written = asked(server, *first)
        await asyncio.sleep(0.5)
        refused = asked(server, *second)
        await asyncio.sleep(0.4)
        assert not refused.done()
        assert (await refused).status == status
        assert written.done()

    run(story())


def test_of_what_may_not_last_no_client_is_told(run: Run, now: Callable[[], datetime]):
    """The object is there again if the server is started anew."""

    async def story() -> None:
        log = FailingLog()
        server = await serving(log, now)
        log.fails = True
        answers = [asked(server, "DELETE", f"{MAPS}/a")]
        await asyncio.sleep(0.5)
        answers.append(asked(server, "DELETE", f"{MAPS}/a"))
        assert [(await each).status for each in answers] == [503, 503]
        assert (await server.call("GET", f"{MAPS}/a")).status == 200
        assert (await server.call("GET", f"{MAPS}/b")).status == 404, "what is read is durable anyway"

    run(story())


class FailingLog(SlowLog):
    fails = False

    async def _later(self, batch: Any) -> None:
        await super()._later(batch)
        if self.fails:
            raise OSError("disk full")


def test_a_store_settles_while_others_write_all_the_time(run: Run):
    async def story() -> None:
        store = Store(SlowLog(), no_fields)
        first = store.write("things", A, thing())

        async def others() -> None:
            while True:
                await asyncio.sleep(0.3)
                store.write("things", A, thing())

        busy = asyncio.create_task(others())
        async with asyncio.timeout(1.1):
            await store.settled()
        assert first.done()
        busy.cancel()

    run(story())


def test_who_waits_for_a_store_to_settle_may_go_away(run: Run):
    async def story() -> None:
        store = Store(SlowLog(), no_fields)
        written = store.write("things", A, thing())
        waiting = [asyncio.create_task(store.settled()) for _ in range(2)]
        await asyncio.sleep(0.5)
        waiting[0].cancel()
        await waiting[1]
        assert (waiting[0].cancelled(), written.done()) == (True, True)

    run(story())


async def test_a_refusal_that_was_decided_in_a_copy_waits_as_well():
    log = Held()
    server = await serving(log, lambda: datetime.now(UTC))
    log.released = asyncio.Event()
    written = asked(server, "DELETE", f"{MAPS}/a")
    await asyncio.sleep(0)
    refused = asyncio.create_task(Aside(server).answer(Request("DELETE", f"{MAPS}/a", (), {}, b"", ADMIN)))
    done, _ = await asyncio.wait([refused], timeout=1)
    assert not done
    log.released.set()
    assert ((await refused).status, (await written).status) == (404, 200)


class Held(NotedLog):
    released: asyncio.Event | None = None

    def append(self, batch: Any) -> Any:
        return self._when_released(batch) if self.released is not None else super().append(batch)

    async def _when_released(self, batch: Any) -> None:
        assert self.released is not None
        await self.released.wait()
        super().append(batch)
