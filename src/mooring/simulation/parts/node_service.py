"""The node service of a CSI driver on one machine: a process of its own, and its socket in the registration
folder.

It lives while the machine has power, whether an agent runs or not; what it is asked for goes on when the
agent dies. The folder is played: an agent is told what its production code would learn there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.csi.driver.dispatch import Dispatcher
from mooring.kube.errors import KubeError
from mooring.node.csi.drivers import NodeDrivers
from mooring.node.csi.folder import RETRY_S
from mooring.simulation.engine.event_loop import Actor
from mooring.simulation.parts.driver_process import DriverProcess
from mooring.volumes.errors import VolumeError


class PlayedNodeService:
    """`make` makes what serves in one life; `actor` the actor of a life."""

    def __init__(
        self, node: str, driver: str, make: Callable[[], Dispatcher], actor: Callable[[], Actor]
    ) -> None:
        self.process = DriverProcess(f"the service of {node}")
        self.on_change: Callable[[bool], None] = lambda registered: None
        self._driver, self._make, self._new_actor = driver, make, actor
        self._actor: Actor | None = None
        self._has_socket = True
        self._changed = asyncio.Event()

    def start(self) -> None:
        """A new life, if it has none."""
        if self._actor is None:
            self._actor = self._new_actor()
            self.process.begin(self._actor, self._make())

    def kill(self) -> None:
        """Ends it at once; calls that are under way have no answer."""
        if self._actor is not None:
            self._actor.halted, self._actor = True, None
            self.process.lose()

    @property
    def registered(self) -> bool:
        """Whether its socket is in the registration folder."""
        return self._has_socket

    def register(self, there: bool) -> None:
        """Puts its socket into the registration folder, or takes it away."""
        if there != self._has_socket:
            self._has_socket = there
            self._changed.set()
            self.on_change(there)

    async def keep_known(self, drivers: NodeDrivers) -> None:
        """Tells an agent of it, as long as that lives."""
        known = False
        while True:
            self._changed.clear()
            if known and not self._has_socket:
                await drivers.unregister(self._driver)
                known = False
            elif self._has_socket and not known:
                known = await self._introduced(drivers)
            waits = known != self._has_socket
            try:
                async with asyncio.timeout(RETRY_S if waits else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _introduced(self, drivers: NodeDrivers) -> bool:
        try:
            await drivers.register(self._driver, self._driver)
        except (VolumeError, KubeError):
            return False
        return True
