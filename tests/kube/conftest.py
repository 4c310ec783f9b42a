"""A server in memory and a client on a wire that can be cut, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from random import Random
from typing import Any

import pytest

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.simulation.parts.faulty_transport import FaultyTransport, faulty_client


class Api:
    """`client` goes through `wire`; `admin` reaches the server whatever happens to the wire."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        self.server = server
        self.now = now
        self.client: Client
        self.wire: FaultyTransport
        self.client, self.wire = faulty_client(server)
        self.admin, _ = faulty_client(server)


@pytest.fixture
def run(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """As everywhere; a story that is stuck for eleven days of virtual time has failed."""

    def run_story(story: Coroutine[Any, Any, Any]) -> Any:
        async def told() -> Any:
            guard = asyncio.create_task(asyncio.sleep(1e6))
            found = await asyncio.wait_for(story, 1e6 - 1)
            assert not guard.done()
            return found

        return run(told())

    return run_story


@pytest.fixture
def play(
    run: Callable[[Any], Any], now: Callable[[], datetime]
) -> Callable[[Callable[[Api], Coroutine[Any, Any, Any]]], Any]:
    """Plays a story, a coroutine function of an `Api`, on a fresh server."""

    def play_story(story: Callable[[Api], Coroutine[Any, Any, Any]]) -> Any:
        async def told() -> Any:
            server = Server.in_memory(now=now, random=Random(1))
            await server.start()
            return await story(Api(server, now))

        return run(told())

    return play_story
