"""The EBS driver in a simulated cluster: its production controller in a process of its own, and a played node
service.

The driver's process remembers nothing: it dies at any await and starts anew, and what it has sent goes on at
EC2. All controllers call the one that lives; a call that was under way when it died has no answer. The node
service mounts whatever EC2 shows at the device name that ControllerPublishVolume has answered: it does not
look whose disk that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from mooring.csi.client import Channel
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.services import NodeCapability
from mooring.csi.errors import Code, CsiError, NotConnected
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Reply, Rpc
from mooring.csi.rpc import Request as Message
from mooring.ebs.controller_service.controller import DEVICE_PATH, make_controller
from mooring.ebs.driver import ebs_driver
from mooring.ebs.options import DRIVER_NAME, Options
from mooring.ebs.topology import node_segments
from mooring.simulation.engine.event_loop import Actor
from mooring.simulation.parts.csi_driver import PlayedNode
from mooring.simulation.parts.ec2 import Ec2, Ec2Wire, device_path
from mooring.simulation.parts.emptydir_plugin import ScratchPlugin
from mooring.simulation.parts.network import Link
from mooring.volumes.host import ControllerVolumeHost, NodeVolumeHost, VolumeHost
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.csi.plugin import CSIPlugin

DRIVER = DRIVER_NAME
PROCESS = "ebs"
"""The name of the driver's process."""
CALL_S = 0.001
VOLUMES = 25
"""Of a node."""


class EbsProcess:
    """Where the driver's controller is reached, whichever life of its process there is."""

    def __init__(self, ec2: Ec2) -> None:
        self.ec2 = ec2
        self._host: Actor | None = None
        self._channel: LocalChannel | None = None
        self._open: dict[asyncio.Future[Any], str] = {}

    async def serve(
        self,
        actor: Actor,
        link: Link,
        now: Callable[[], datetime],
        random: Random,
        asked_by: Callable[[], str],
    ) -> None:
        """One life, as `actor`."""
        self.lose()
        api = Ec2Wire(self.ec2, link, Random(random.random()), asked_by)
        controller = make_controller(Options(), api, now=now, random=random.random)
        self._host, self._channel = actor, LocalChannel(Dispatcher(ebs_driver("1", controller, None), []))
        await asyncio.Event().wait()

    def lose(self) -> None:
        """Calls that are under way fail: their process is gone."""
        self._host = self._channel = None
        for answer, method in list(self._open.items()):
            if not answer.done():
                answer.set_exception(CsiError(Code.UNAVAILABLE, "the connection broke", method))

    async def call(self, rpc: Rpc[Message, Reply], request: Message, timeout_s: float) -> Reply:
        """As over a socket. Raises CsiError."""
        await asyncio.sleep(CALL_S)
        host, channel = self._host, self._channel
        if host is None or channel is None:
            raise NotConnected(PROCESS, "connection refused", rpc.name)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._open[answer] = rpc.name
        work = host.start(_answer(channel, rpc, request, timeout_s, answer))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise CsiError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout_s:g} s", rpc.name) from None
        finally:
            del self._open[answer]
            work.cancel()

    async def close(self) -> None:
        return


async def _answer(
    channel: LocalChannel,
    rpc: Rpc[Message, Reply],
    request: Message,
    timeout_s: float,
    answer: asyncio.Future[Reply],
) -> None:
    """The driver's side of a call."""
    try:
        reply = await channel.call(rpc, request, timeout_s)
    except CsiError as error:
        if not answer.done():
            answer.set_exception(error)
        return
    if not answer.done():
        answer.set_result(reply)


class _Node(PlayedNode):
    capabilities = (NodeCapability.STAGE_UNSTAGE_VOLUME,)

    def __init__(self, ec2: Ec2, node: str) -> None:
        super().__init__(ec2.array, node)
        self._ec2 = ec2

    def disk(self, volume_id: str) -> str:
        return self._ec2.disk(volume_id)

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        path, wanted = device_path(request.publish_context[DEVICE_PATH]), self.disk(request.volume_id)
        found = self._array.at_path(path, self._node, "")
        if not found:
            raise CsiError(Code.NOT_FOUND, f"there is no device {path}")
        return self.mount(found, path, wanted)

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(
            node_id=self._ec2.instances[self._node],
            max_volumes_per_node=VOLUMES,
            accessible_topology=csi.Topology(segments=node_segments(self._ec2.zone(self._node))),
        )


def ebs_plugins(process: EbsProcess, host: VolumeHost) -> PluginManager:
    """The plugins of a process of the cluster: a controller calls the driver's process, a node its own
    service."""

    def connect(address: str) -> Channel:
        if not host.node_name:
            return process
        driver = replace(ebs_driver("1", None, None), node=_Node(process.ec2, host.node_name))
        return LocalChannel(Dispatcher(driver, [Path("/")]))

    assert isinstance(host, (NodeVolumeHost, ControllerVolumeHost))
    host = replace(host, plugin_settings={CSI_PLUGIN: {DRIVER: PROCESS}})
    plugins: Sequence[Any] = [CSIPlugin(connect), ScratchPlugin()]
    return PluginManager(plugins, host)
