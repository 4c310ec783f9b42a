"""The EBS driver in a simulated cluster: its production controller in a process of its own, and a played node
service.

The driver's process remembers nothing: it dies at any await and starts anew, and what it has sent goes on at
EC2. All controllers call the one that lives; a call that was under way when it died has no answer. The node
service mounts whatever EC2 shows at the device name that ControllerPublishVolume has answered: it does not
look whose disk that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from mooring.csi.client import Channel
from mooring.csi.driver.dispatch import Dispatcher
from mooring.csi.driver.services import NodeCapability
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.controller import DEVICE_PATH, make_controller
from mooring.ebs.driver import ebs_driver
from mooring.ebs.options import DRIVER_NAME, Options
from mooring.ebs.topology import node_segments
from mooring.simulation.engine.event_loop import Actor
from mooring.simulation.parts.csi_driver import PlayedNode
from mooring.simulation.parts.driver_process import DriverProcess
from mooring.simulation.parts.ec2 import Ec2, Ec2Wire, device_path
from mooring.simulation.parts.network import Link
from mooring.simulation.parts.plugins_beside import plugins_beside
from mooring.simulation.parts.storage import Array
from mooring.volumes.host import ControllerVolumeHost, NodeVolumeHost, VolumeHost
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.csi.plugin import CSIPlugin

DRIVER = DRIVER_NAME
PROCESS = "ebs"
"""The name of the driver's process."""
VOLUMES = 25
"""Of a node."""


class EbsProcess(DriverProcess):
    """The driver's controller. `flags`: its options, by their fields' names."""

    def __init__(self, ec2: Ec2, flags: Mapping[str, Any]) -> None:
        super().__init__(PROCESS)
        self.ec2, self._options = ec2, Options(**flags)

    async def serve(
        self,
        actor: Actor,
        link: Link,
        random: Random,
        asked_by: Callable[[], str],
    ) -> None:
        """One life, as `actor`."""
        self.lose()
        api = Ec2Wire(self.ec2, link, Random(random.random()), asked_by)
        controller = make_controller(self._options, api, random=random.random)
        self.begin(actor, Dispatcher(ebs_driver("1", controller, None), []))
        await asyncio.Event().wait()


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
        return await self.mount(found, path, wanted, raw=request.volume_capability.HasField("block"))

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(
            node_id=self._ec2.instances[self._node],
            max_volumes_per_node=VOLUMES,
            accessible_topology=csi.Topology(segments=node_segments(self._ec2.zone(self._node))),
        )


def ebs_node_service(ec2: Ec2, node: str) -> Dispatcher:
    """The driver's node service on a machine."""
    return Dispatcher(replace(ebs_driver("1", None, None), node=_Node(ec2, node)), [Path("/")])


def ebs_plugins(
    process: EbsProcess, array: Array, services: Mapping[str, DriverProcess], host: VolumeHost
) -> PluginManager:
    """The plugins of a process of the cluster: a controller calls the driver's process, a node its own
    service."""

    def connect(address: str) -> Channel:
        return services[host.node_name] if host.node_name else process

    assert isinstance(host, (NodeVolumeHost, ControllerVolumeHost))
    host = replace(host, plugin_settings={CSI_PLUGIN: {} if host.node_name else {DRIVER: PROCESS}})
    return PluginManager([CSIPlugin(connect), *plugins_beside(array)], host)
