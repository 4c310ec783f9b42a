"""The CSI drivers of this node: registers them, keeps them known, gives the plugin what the API says of them.

A driver comes from the registration folder, or from the agent's settings (an address, without registration).
Both are asked for the node's info, which goes to the CSINode; after the Node was registered anew, once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import structlog

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Identity, Node
from mooring.kube import objects
from mooring.kube.client import Client
from mooring.kube.errors import KubeError
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import CSIDriver
from mooring.node.csi.csinode import CSINodeWriter
from mooring.node.csi.folder import RegistrationFolder
from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins.csi.drivers import Driver
from mooring.volumes.plugins.csi.plugin import CSIPlugin

RETRY_S = 1.0

log = structlog.get_logger("node-agent")


class NodeDrivers:
    """All drivers of one node agent."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        folder: Path | None,
        plugin: CSIPlugin,
        recorder: Recorder,
        *,
        random: Random,
    ) -> None:
        """`folder` is where drivers register; None: nowhere."""
        self._recorder = recorder
        self._node: objects.Node | None = None
        self._troubles: dict[str, str] = {}  # by driver: the trouble that was logged last
        self._drivers = plugin.drivers_here
        self._writer = CSINodeWriter(client, node_name)
        self._folder = RegistrationFolder(folder, self.register, self.unregister) if folder else None
        self._known = Informer(client, CSIDriver, random=random)
        plugin.known_drivers = self._known.get
        self._published: dict[str, str] = {}  # by driver: the uid of the Node whose CSINode has it
        self._again = asyncio.Event()

    def node_changed(self, old: objects.Node | None, new: objects.Node | None) -> None:
        """A Node that is registered anew has lost its CSINode and its labels."""
        self._node = new
        if new is not None and (old is None or old.uid != new.uid):
            self._again.set()

    def tell_of_writes(self, written: Callable[[objects.Node], None]) -> None:
        """`written` is called with the Node whenever one of its labels was written here."""
        self._writer.written = written

    def tell_of_changes(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each change of what the API server says of a driver."""
        self._known.add_handler(lambda old, new: changed())

    async def synced(self) -> None:
        """Returns when it is known what the API server says of drivers: whether their volumes are
        attached."""
        await self._known.synced()

    async def run(self) -> None:
        """Works until cancelled, once the Node is registered."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._known.run())
            if self._folder is not None:
                group.create_task(self._folder.run())
            group.create_task(self._publish_all())

    async def register(self, name: str, address: str) -> None:
        """A driver is there. Raises VolumeError and KubeError if the API server cannot be told what it says:
        then another one of its name goes on, as the version before does while this one is not ready."""
        driver = self._drivers.at(name, address)
        try:
            await self._publish(driver)
        except (VolumeError, KubeError) as error:
            self._log_trouble(name, str(error))
            raise
        self._drivers.put(driver)
        self._again.set()  # the Node may have been made anew meanwhile

    async def unregister(self, name: str) -> None:
        """A driver is gone. Its volumes stay mounted, and wait for it."""
        self._drivers.remove(name)
        self._published.pop(name, None)
        try:
            await self._writer.remove(name)
        except KubeError as error:
            log.warning("CSINode not updated", driver=name, error=str(error))

    async def _publish_all(self) -> None:
        """Drivers of the settings, and all of them again after the Node has changed."""
        while True:
            self._again.clear()
            await asyncio.gather(*map(self._try_to_publish, self._missing()))
            try:
                async with asyncio.timeout(RETRY_S if self._missing() else None):
                    await self._again.wait()
            except TimeoutError:
                continue

    def _missing(self) -> list[Driver]:
        """Those that the CSINode of the present Node may lack."""
        if self._node is None:
            return []
        return [each for each in self._drivers if self._published.get(each.name) != self._node.uid]

    async def _try_to_publish(self, driver: Driver) -> None:
        try:
            await self._publish(driver)
        except (VolumeError, KubeError) as error:
            self._log_trouble(driver.name, str(error))

    def _log_trouble(self, driver: str, error: str) -> None:
        """In the log, and in an event of the Node when it is something new."""
        log.warning("CSI driver not ready", driver=driver, error=error)
        if self._node is not None and self._troubles.get(driver) != error:
            self._troubles[driver] = error
            self._recorder.event(self._node, "Warning", "CSIDriverNotReady", error)

    async def _publish(self, driver: Driver) -> None:
        info = await driver.call(Identity.get_plugin_info, csi.GetPluginInfoRequest())
        if info.name != driver.name:
            raise VolumeError(
                f"the driver registered as {driver.name} calls itself {info.name}: use its own name"
            )
        answer = await driver.call(Node.node_get_info, csi.NodeGetInfoRequest())
        self._published[driver.name] = await self._writer.add(driver.name, answer)
        self._troubles.pop(driver.name, None)
