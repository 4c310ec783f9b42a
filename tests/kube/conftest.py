"""A server in memory and a client on a wire that can be cut, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from virtual_server import STUCK_S, not_stuck, started

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.simulation.parts.faulty_transport import FaultyTransport, faulty_client


class FaultyApi:
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
        return run(not_stuck(asyncio.wait_for(story, STUCK_S - 1)))

    return run_story


@pytest.fixture
def play(
    run: Callable[[Any], Any], now: Callable[[], datetime]
) -> Callable[[Callable[[FaultyApi], Coroutine[Any, Any, Any]]], Any]:
    """Plays a story, a coroutine function of a `FaultyApi`, on a fresh server."""

    def play_story(story: Callable[[FaultyApi], Coroutine[Any, Any, Any]]) -> Any:
        async def on_server() -> Any:
            return await story(FaultyApi(await started(now), now))

        return run(on_server())

    return play_story
