"""Discovery finds the same kinds in one document as group by group."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from virtual_server import started

from mooring.controllers.cleanup.kinds import discover
from mooring.kube.client import Client
from mooring.kube.transport import InProcess, Request, Response


class Older:
    """A transport to a server without aggregated discovery."""

    def __init__(self, inner: InProcess) -> None:
        self.inner = inner
        self.sent = 0

    async def send(self, request: Request) -> Response:
        self.sent += 1
        return await self.inner.send(
            Request(request.method, request.path, headers={"Accept": "application/json"})
        )

    async def close(self) -> None:
        """Nothing is held."""


def test_an_older_server_is_asked_group_by_group_and_the_same_kinds_are_found(
    run: Callable[[Coroutine[Any, Any, None]], None], now: Callable[[], datetime]
) -> None:
    async def story() -> None:
        server = await started(now)
        newer = InProcess(server.call, server.tokens.admin())
        older = Older(newer)
        found = (await discover(Client(newer))).resources
        assert ("apps", "statefulsets") in {(each.group, each.plural) for each in found}
        assert sorted((await discover(Client(older))).resources) == sorted(found)
        assert older.sent > 10

    run(story())
