"""The played storage behind a CSI driver: the production CSI plugin, client and driver base, without sockets.

Each process of controllers has its own instance of the driver beside it: it lives and dies with it. What it
asked of the storage goes on there. Each node's service is a process of its own (`driver_process`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mooring.csi.client import Channel
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.services import (
    ControllerCapability,
    Driver,
    NodeCapability,
    NodeService,
    PluginService,
)
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.simulation.parts.csi_snapshots import SnapshotService, source_of
from mooring.simulation.parts.disk_attributes import REFUSED
from mooring.simulation.parts.driver_process import DriverProcess
from mooring.simulation.parts.plugins_beside import plugins_beside
from mooring.simulation.parts.raw_devices import make_device
from mooring.simulation.parts.storage import Array
from mooring.simulation.parts.storage_errors import Infeasible, Unanswered
from mooring.volumes.errors import (
    DeletedVolumeInUse,
    DeviceStillInUse,
    SnapshotNotFound,
    StorageRefused,
    VolumeInUse,
    VolumeNotFound,
)
from mooring.volumes.host import ControllerVolumeHost, NodeVolumeHost, VolumeHost
from mooring.volumes.names import CSI_PLUGIN, escape_plugin_name
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.csi.plugin import CSIPlugin
from mooring.volumes.plugins.csi.publishing import MOUNT
from mooring.volumes.plugins.csi.vol_data import load

DRIVER = "csi.example.com"
DEVICE_PATH = "devicePath"
CODES: dict[type[Exception], Code] = {
    VolumeNotFound: Code.NOT_FOUND,
    SnapshotNotFound: Code.NOT_FOUND,
    VolumeInUse: Code.FAILED_PRECONDITION,
    DeviceStillInUse: Code.FAILED_PRECONDITION,
    DeletedVolumeInUse: Code.FAILED_PRECONDITION,
    StorageRefused: Code.RESOURCE_EXHAUSTED,
    Infeasible: Code.INVALID_ARGUMENT,
    Unanswered: Code.UNAVAILABLE,
}
C, N = ControllerCapability, NodeCapability


class _Controller(SnapshotService):
    capabilities = (
        C.CREATE_DELETE_VOLUME,
        C.PUBLISH_UNPUBLISH_VOLUME,
        C.LIST_VOLUMES,
        C.LIST_VOLUMES_PUBLISHED_NODES,
        C.SINGLE_NODE_MULTI_WRITER,
    )

    def __init__(self, array: Array) -> None:
        super().__init__(array.snapshots)
        self._array = array
        if array.keeps:
            self.capabilities = (*self.capabilities, *SnapshotService.capabilities)
        if array.grows:
            self.capabilities = (*self.capabilities, C.EXPAND_VOLUME)
        if array.modifies:
            self.capabilities = (*self.capabilities, C.MODIFY_VOLUME)

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        if "bad" in request.parameters:
            raise CsiError(Code.INVALID_ARGUMENT, "the parameter bad is not known")
        if self._array.failure is not None:
            raise self._array.failure
        if REFUSED in request.mutable_parameters:
            raise CsiError(Code.INVALID_ARGUMENT, f"the parameter {REFUSED} is not known")
        if not self._array.attributes.may_begin(request.name, request.mutable_parameters):
            raise CsiError(Code.ALREADY_EXISTS, f"{request.name} is there, and made as something else")
        self._array.create(request.name, of=source_of(request))
        self._array.attributes.begin(request.name, request.mutable_parameters)
        if self._array.unanswered():
            raise Unanswered(f"creating {request.name}: no answer")
        size = request.capacity_range.required_bytes
        volume = csi.Volume(volume_id=request.name, capacity_bytes=size)
        if request.HasField("volume_content_source"):
            volume.content_source.CopyFrom(request.volume_content_source)
        return csi.CreateVolumeResponse(volume=volume)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        self._array.delete(request.volume_id)
        return csi.DeleteVolumeResponse()

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        size = await self._array.grow(request.volume_id, request.capacity_range.required_bytes)
        return csi.ControllerExpandVolumeResponse(capacity_bytes=size, node_expansion_required=True)

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        await self._array.attributes.change(request.volume_id, request.mutable_parameters)
        return csi.ControllerModifyVolumeResponse()

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        await self._array.attach(request.volume_id, request.node_id)
        path = self._array.path(request.volume_id, request.node_id)
        return csi.ControllerPublishVolumeResponse(publish_context={DEVICE_PATH: path})

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        await self._array.detach(request.volume_id, request.node_id)
        return csi.ControllerUnpublishVolumeResponse()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        return csi.ValidateVolumeCapabilitiesResponse()

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        reply = csi.ListVolumesResponse()
        for disk in sorted(self._array.disks):
            nodes = [self._array.attached[disk]] if disk in self._array.attached else []
            nodes += [node for each, node in sorted(self._array.also) if each == disk]
            entry = reply.entries.add()
            entry.volume.volume_id = disk
            entry.status.published_node_ids.extend(
                node for node in nodes if self._array.says_attached(disk, node)
            )
        return reply


class PlayedNode(NodeService):
    """A node service whose mounts are played. How a device is found, and what is told of the node, is the
    driver's."""

    def __init__(self, array: Array, node: str) -> None:
        self._array, self._node = array, node

    def disk(self, volume_id: str) -> str:
        """The name under which the played machine knows the volume."""
        return volume_id

    async def mount(self, found: str, path: str, wanted: str, *, raw: bool) -> csi.NodeStageVolumeResponse:
        """Mounts the disk that is at the path; `raw`: has its device ready."""
        await self._array.mounting(self._node, wanted)
        self._array.mount(found, self._node, path=path, wanted=wanted, raw=raw)
        if (failure := self._array.mount_failure.get(self._node)) is not None:
            raise failure
        await self._array.mounting(self._node)
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(
        self, request: csi.NodeUnstageVolumeRequest
    ) -> csi.NodeUnstageVolumeResponse:
        disk = self.disk(request.volume_id)
        if (disk, self._node) in self._array.mounted:  # where it is not, the driver sees that at once
            await asyncio.sleep(self._array.unmount_s.get(self._node, 0.0))
        self._array.unmount(disk, self._node)
        return csi.NodeUnstageVolumeResponse()

    async def node_publish_volume(
        self, request: csi.NodePublishVolumeRequest
    ) -> csi.NodePublishVolumeResponse:
        await self._array.mounting(self._node)
        target = Path(request.target_path)
        if request.volume_capability.HasField("block"):
            make_device(target)
        else:
            target.mkdir(exist_ok=True)
        self._array.journal(self._node, "truth.set-up", **_shown_at(target), node=self._node)
        if (failure := self._array.set_up_failure.get(self._node)) is not None:
            raise failure
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest
    ) -> csi.NodeUnpublishVolumeResponse:
        target = Path(request.target_path)
        there = target.exists()
        if target.is_dir():
            target.rmdir()
        else:
            target.unlink(missing_ok=True)
        if there:
            self._array.journal(self._node, "truth.torn-down", **_shown_at(target), node=self._node)
        return csi.NodeUnpublishVolumeResponse()


def _shown_at(target: Path) -> dict[str, str]:
    """Which volume a driver shows there, and to which pod: at `<pod>/volumes/<plugin>/<volume>/mount`, or a
    device at `publish/<volume>/<pod>/device`."""
    if target.name == MOUNT:
        return {"volume": target.parent.name, "uid": target.parents[3].name}
    return {"volume": target.parents[1].name, "uid": target.parent.name}


class _Node(PlayedNode):
    capabilities = (N.STAGE_UNSTAGE_VOLUME, N.SINGLE_NODE_MULTI_WRITER)

    def __init__(self, array: Array, node: str) -> None:
        super().__init__(array, node)
        if array.grows:
            self.capabilities = (*self.capabilities, N.EXPAND_VOLUME)

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        await self._array.grow_file_system(request.volume_id, self._node)
        return csi.NodeExpandVolumeResponse(capacity_bytes=self._array.sizes[request.volume_id])

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        path, wanted = request.publish_context[DEVICE_PATH], request.volume_id
        if self._array.at_path(path, self._node, wanted) != wanted:  # a driver finds a disk by its name, too
            path = self._array.path(wanted, self._node)
        found = self._array.at_path(path, self._node, wanted)
        if found != wanted:
            raise CsiError(Code.NOT_FOUND, f"{path} is {found or 'not there'}, and not {wanted}")
        return await self.mount(found, path, wanted, raw=request.volume_capability.HasField("block"))

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id=self._node, max_volumes_per_node=self._array.limit or 0)


def csi_node_service(array: Array, node: str) -> Dispatcher:
    """The driver's node service on a machine."""
    services = [PluginService.CONTROLLER_SERVICE]
    return Dispatcher(Driver(DRIVER, "1", None, _Node(array, node), services, codes=CODES), [Path("/")])


def csi_plugins(array: Array, services: Mapping[str, DriverProcess], host: VolumeHost) -> PluginManager:
    """The plugins of a process whose storage is this array, behind the driver: a controller has an instance
    of it beside it, a node calls its own service."""
    driver = Driver(DRIVER, "1", _Controller(array), None, [PluginService.CONTROLLER_SERVICE], codes=CODES)

    def connect(address: str) -> Channel:
        return services[host.node_name] if host.node_name else LocalChannel(Dispatcher(driver, [Path("/")]))

    assert isinstance(host, (NodeVolumeHost, ControllerVolumeHost))
    host = replace(host, plugin_settings={CSI_PLUGIN: {} if host.node_name else {DRIVER: "here"}})
    return PluginManager([CSIPlugin(connect), *plugins_beside(array)], host)


def staged_at(root: Path, disk: str) -> str | None:
    """Where a node with this root directory mounts the disk, as what it has written down there says. A disk
    has the name of its PersistentVolume."""
    of_plugin = root / "plugins" / escape_plugin_name(CSI_PLUGIN)
    for directory in sorted(of_plugin.glob("*/*")):
        data = load(str(directory))
        if data is not None and data.spec_vol_id == disk:
            return str(directory / "globalmount")
    return None
