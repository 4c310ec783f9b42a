"""A server, and controllers whose caches a test fills itself, so that exactly one cache can be stale."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from random import Random
from typing import Any

import pytest

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.simulation.parts.array_plugin import Array, ArrayPlugin
from mooring.simulation.parts.faulty_transport import faulty_client
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager


class Desk:
    """`api` is the administrator's client; `make` makes a controller that does not run by itself."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        self.now, self.server = now, server
        self.api, self.wire = faulty_client(server)
        self.array = Array()

    def make(self, kind: Callable[..., Any], **options: Any) -> Any:
        return self.make_with(self.api, kind, **options)

    def make_with(self, client: Client, kind: Callable[..., Any], **options: Any) -> Any:
        return kind(client, now=self.now, random=Random(1), **options)

    def plugins(self) -> PluginManager:
        return PluginManager([ArrayPlugin(self.array)], ControllerVolumeHost(self.now))


@pytest.fixture
def desk(
    run: Callable[[Any], Any], now: Callable[[], datetime]
) -> Callable[[Callable[[Desk], Coroutine[Any, Any, Any]]], Any]:
    """Plays a scene with a fresh server, in virtual time."""

    def play_scene(scene: Callable[[Desk], Coroutine[Any, Any, Any]]) -> Any:
        async def told() -> Any:
            guard = asyncio.create_task(asyncio.sleep(1e6))
            server = Server.in_memory(now=now, random=Random(1))
            await server.start()
            found = await scene(Desk(server, now))
            assert not guard.done()
            return found

        return run(told())

    return play_scene
