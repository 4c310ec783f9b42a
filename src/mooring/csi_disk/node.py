"""The node service of `disk.mooring.dev`: devices of attached disks, formatted, checked and mounted.

It mounts only a device that is proved to be the volume's: it looks the device up at the array and ignores the
request's path. It uses no shell; `values` checks file system types and mount options first.
"""

from __future__ import annotations

import os
from pathlib import Path

from mooring.csi.driver.services import AccessMode, NodeCapability, NodeService
from mooring.csi.driver.targets import (
    check_mounted_target,
    check_no_file,
    check_staging_path,
    make_file,
    not_staged,
    remove_file,
)
from mooring.csi.driver.usage import volume_usage
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi_disk.nodes import Nodes
from mooring.csi_disk.values import FS_TYPE, TOPOLOGY_KEY, check_mount, check_use
from mooring.mounts.blocking import blocking
from mooring.mounts.interface import Mounts
from mooring.mounts.mount_points import mount_at_path, mount_of_device
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_source import DEFAULT_FS_TYPE

_N = NodeCapability


class DiskNode(NodeService):
    """The volumes of the node `node_id`."""

    capabilities = (
        _N.STAGE_UNSTAGE_VOLUME,
        _N.GET_VOLUME_STATS,
        _N.EXPAND_VOLUME,
        _N.SINGLE_NODE_MULTI_WRITER,
    )

    def __init__(
        self, root: Path, array: DiskArray, mounts: Mounts, node_id: str, machine: str, max_volumes: int = 0
    ) -> None:
        """`max_volumes` is reported to the orchestrator; 0 means no limit."""
        self._array = array
        self._mounts = mounts
        self._nodes = Nodes(root, array)
        self._node_id = node_id
        self._machine = machine
        self._max_volumes = max_volumes

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        await self._nodes.register(self._node_id, self._max_volumes)
        return csi.NodeGetInfoResponse(
            node_id=self._node_id,
            max_volumes_per_node=self._max_volumes,
            accessible_topology=csi.Topology(segments={TOPOLOGY_KEY: self._machine}),
        )

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        capability = request.volume_capability
        await self._check_use(request.volume_id, capability)
        device = await self._device(request.volume_id)
        if capability.HasField("mount"):
            fs_type = capability.mount.fs_type or request.volume_context.get(FS_TYPE) or DEFAULT_FS_TYPE
            options = list(capability.mount.mount_flags)
            if capability.access_mode.mode in _READING:
                options.append("ro")
            check_mount(fs_type, options)
            await self._mounts.format_and_mount(device, request.staging_target_path, fs_type, options)
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(
        self, request: csi.NodeUnstageVolumeRequest
    ) -> csi.NodeUnstageVolumeResponse:
        await self._mounts.unmount(request.staging_target_path)
        return csi.NodeUnstageVolumeResponse()

    async def node_publish_volume(
        self, request: csi.NodePublishVolumeRequest
    ) -> csi.NodePublishVolumeResponse:
        await self._check_use(request.volume_id, request.volume_capability)
        check_staging_path(request.staging_target_path)
        device = await self._device(request.volume_id)
        block = request.volume_capability.HasField("block")
        read_only = request.readonly or request.volume_capability.access_mode.mode in _READING
        source = device if block else await self._staged(request, device)
        await self._check_target(request, device, read_only)
        await blocking(make_file if block else check_no_file, request.target_path)
        await self._mounts.bind_mount(source, request.target_path, read_only)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest
    ) -> csi.NodeUnpublishVolumeResponse:
        await self._mounts.unmount(request.target_path)
        if not await blocking(remove_file, request.target_path):
            await self._mounts.remove_mount_point(request.target_path)
        return csi.NodeUnpublishVolumeResponse()

    async def node_get_volume_stats(
        self, request: csi.NodeGetVolumeStatsRequest
    ) -> csi.NodeGetVolumeStatsResponse:
        await self._shown(request.volume_id, request.volume_path)
        return csi.NodeGetVolumeStatsResponse(usage=await blocking(volume_usage, request.volume_path))

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        device = await self._shown(request.volume_id, request.volume_path)
        size = (await blocking(self._array.get, request.volume_id)).size
        if size < request.capacity_range.required_bytes:
            raise CsiError(
                Code.OUT_OF_RANGE, f"the disk has {size} bytes: ControllerExpandVolume comes first"
            )
        if await blocking(os.path.isdir, request.volume_path):
            await self._mounts.resize(device, request.volume_path)
        return csi.NodeExpandVolumeResponse(capacity_bytes=size)

    # --- what is there

    async def _check_use(self, disk: str, capability: csi.VolumeCapability) -> None:
        check_use([capability], (await blocking(self._array.get, disk)).exclusive)

    async def _device(self, disk: str) -> str:
        device = await blocking(self._array.device, disk, self._node_id)
        if device is None:
            raise CsiError(
                Code.FAILED_PRECONDITION,
                f"volume {disk} is not attached to node {self._node_id}: publish it there first",
            )
        return device

    async def _staged(self, request: csi.NodePublishVolumeRequest, device: str) -> str:
        if await mount_of_device(self._mounts, device, request.staging_target_path) is None:
            raise not_staged(request.volume_id, request.staging_target_path)
        return request.staging_target_path

    async def _shown(self, disk: str, path: str) -> str:
        """The volume's device. Raises CsiError, NOT_FOUND, unless it is mounted at the path."""
        await blocking(self._array.get, disk)
        device = await blocking(self._array.device, disk, self._node_id)
        if device is None or await mount_of_device(self._mounts, device, path) is None:
            raise CsiError(Code.NOT_FOUND, f"volume {disk} is not at {path}")
        return device

    async def _check_target(
        self, request: csi.NodePublishVolumeRequest, device: str, read_only: bool
    ) -> None:
        """Raises CsiError if something else is mounted at the target, or the volume with another access, or
        if the access mode allows one target only and there is another one."""
        here = await mount_at_path(self._mounts, request.target_path)
        if here is not None:
            check_mounted_target(
                request.target_path,
                here.source,
                is_the_volume=await mount_of_device(self._mounts, device, request.target_path) is not None,
                is_read_only="ro" in here.options,
                wanted_read_only=read_only,
            )
        elif request.volume_capability.access_mode.mode in _ALONE and await self._targets(device, request):
            raise CsiError(
                Code.FAILED_PRECONDITION, f"volume {request.volume_id} is published already, for one workload"
            )

    async def _targets(self, device: str, request: csi.NodePublishVolumeRequest) -> set[str]:
        """The paths at which the volume is published now."""
        mounted = await self._mounts.get_device_mount_refs(device)
        raw = [
            mount.mount_point
            for mount in await self._mounts.mount_table()
            if mount.fs_type == "devtmpfs" and mount.root == "/" + Path(device).name
        ]
        return {*mounted, *raw} - {os.path.realpath(request.staging_target_path)}


_READING = (AccessMode.SINGLE_NODE_READER_ONLY, AccessMode.MULTI_NODE_READER_ONLY)
_ALONE = (
    AccessMode.SINGLE_NODE_WRITER,
    AccessMode.SINGLE_NODE_SINGLE_WRITER,
    AccessMode.SINGLE_NODE_READER_ONLY,
)
