"""Controllers on an API server, whose caches a test fills itself, so that exactly one cache can be stale."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

from played_driver import NAME, Storage, plugin

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.errors import Forbidden
from mooring.simulation.parts.array_plugin import Array, ArrayPlugin
from mooring.simulation.parts.faulty_transport import faulty_client
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.plugin_manager import PluginManager

Play = Callable[..., Any]
"""Plays a story, a coroutine function of a stage; see the fixture `play` of tests/controllers."""


def refuse_deletions(client: Client, *names: str) -> None:
    """Has an admission webhook, say, protect the objects of these names from deletion."""
    delete = client.delete

    async def guarded(kind: type[Any], name: str, *about: Any, **conditions: Any) -> None:
        if name in names:
            raise Forbidden(f"admission webhook denied the request: {name} is protected", status=403)
        await delete(kind, name, *about, **conditions)

    client.delete = guarded  # type: ignore[method-assign]


class ControllerStage:
    """`api` is the administrator's client; `make` makes a controller that does not run by itself."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        self.now, self.server = now, server
        self.api, self.wire = faulty_client(server)
        self.array = Array()

    def make(self, kind: Callable[..., Any], client: Client | None = None, **options: Any) -> Any:
        return kind(client or self.api, now=self.now, random=Random(1), **options)

    def plugins(self) -> PluginManager:
        return PluginManager([ArrayPlugin(self.array)], ControllerVolumeHost(self.now))

    async def fill(self, controller: Any, *kinds: type[Any]) -> None:
        """Puts all stored objects of these kinds into the controller's caches; what is gone stays there."""
        for kind in kinds:
            for found in (await self.api.list(kind)).items:
                controller.cache(kind).accept(found)


class DriverStage(ControllerStage):
    """The same with a played CSI driver, whose storage is `storage`."""

    def __init__(self, server: Server, now: Callable[[], datetime], storage: Storage | None = None) -> None:
        super().__init__(server, now)
        self.storage = storage or Storage()

    def driver(self, client: Client | None = None, **options: Any) -> PluginManager:
        given = client or self.api
        host = ControllerVolumeHost(self.now, {CSI_PLUGIN: {NAME: "here"}}, given, given.check_leading)
        return PluginManager([plugin(self.storage, **options)], host)
