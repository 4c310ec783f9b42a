"""The node service of `ebs.csi.aws.com`: devices of attached volumes, formatted, checked, mounted and grown.

It makes no call to EC2 and needs no credentials: what it must know is on this machine (`devices`), in the
instance metadata (`metadata`), and in the request (`staging`). It mounts only a device that is proved to be
the volume's. Every method is idempotent and may be repeated after a cancellation or a crash at any point.
"""

from __future__ import annotations

import asyncio

from mooring.csi.driver.services import NodeCapability, NodeService
from mooring.csi.driver.targets import (
    check_mounted_target,
    check_no_file,
    check_staging_path,
    make_file,
    not_staged,
    remove_file,
)
from mooring.csi.driver.usage import device_size, volume_usage
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.capabilities import DEVICE_PATH
from mooring.ebs.node_service import volume_limits
from mooring.ebs.node_service.devices import DeviceFinder, check_volume_id
from mooring.ebs.node_service.metadata import Metadata
from mooring.ebs.node_service.staging import Use, use_of
from mooring.ebs.topology import node_segments
from mooring.mounts.blocking import blocking
from mooring.mounts.interface import Mounts
from mooring.mounts.mount_points import mount_at_path, mount_of_device, raw_device, shown_device

DEVICE_WAIT_S = 5.0
"""Seconds for which the kernel and udev may lag behind EC2's "attached" until the device appears."""
DEVICE_LOOK_S = 0.25

_N = NodeCapability


class EbsNode(NodeService):
    """The volumes of one instance."""

    capabilities = (_N.STAGE_UNSTAGE_VOLUME, _N.EXPAND_VOLUME, _N.GET_VOLUME_STATS)

    def __init__(
        self,
        mounts: Mounts,
        devices: DeviceFinder,
        metadata: Metadata,
        *,
        volume_attach_limit: int = -1,
        reserved_volume_attachments: int = -1,
        legacy_xfs: bool = False,
        device_wait_s: float = DEVICE_WAIT_S,
    ) -> None:
        """A limit below 0 is not given (`Options`)."""
        self._mounts = mounts
        self._devices = devices
        self._metadata = metadata
        self._volume_attach_limit = volume_attach_limit
        self._reserved = reserved_volume_attachments
        self._legacy_xfs = legacy_xfs
        self._device_wait_s = device_wait_s

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        instance = await self._metadata.instance()
        return csi.NodeGetInfoResponse(
            node_id=instance.instance_id,
            max_volumes_per_node=await self._max_volumes(instance.instance_type),
            accessible_topology=csi.Topology(segments=node_segments(instance.zone)),
        )

    async def _max_volumes(self, instance_type: str) -> int:
        """Counts network interfaces anew each time, because they can be attached and detached."""
        if self._volume_attach_limit >= 0:
            return self._volume_attach_limit
        limit = volume_limits.of_type(instance_type)
        if self._reserved < 0:
            self._reserved = 1 + volume_limits.others(await self._metadata.boot_volumes())
        further = await self._metadata.network_interfaces() - 1 if limit.shared else 0
        return volume_limits.max_volumes(limit, self._reserved + further)

    # --- staging

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        use = use_of(request.volume_capability, request.volume_context, self._legacy_xfs)
        attached_as = request.publish_context.get(DEVICE_PATH, "")
        if not attached_as:
            raise CsiError(
                Code.INVALID_ARGUMENT, f"publish_context lacks {DEVICE_PATH}, which ControllerPublish gives"
            )
        device = await self._find(request.volume_id, attached_as, use.partition)
        if not use.block:
            await self._mount(device, request.staging_target_path, use)
        return csi.NodeStageVolumeResponse()

    async def _mount(self, device: str, target: str, use: Use) -> None:
        await self._clear_dead_mount(target)
        await self._mounts.format_and_mount(device, target, use.fs_type, use.options, use.format_options)
        if use.fs_type == "xfs" and not use.read_only:
            await self._mounts.resize(
                device, target
            )  # xfs grows only while it is mounted; others grew before

    async def node_unstage_volume(
        self, request: csi.NodeUnstageVolumeRequest
    ) -> csi.NodeUnstageVolumeResponse:
        await self._mounts.unmount(request.staging_target_path)
        return csi.NodeUnstageVolumeResponse()

    # --- publishing

    async def node_publish_volume(
        self, request: csi.NodePublishVolumeRequest
    ) -> csi.NodePublishVolumeResponse:
        use = use_of(request.volume_capability, request.volume_context, self._legacy_xfs)
        check_staging_path(request.staging_target_path)
        device = await self._find(
            request.volume_id, request.publish_context.get(DEVICE_PATH, ""), use.partition
        )
        source = device if use.block else await self._staged(request, device)
        await self._clear_dead_mount(request.target_path)
        read_only = request.readonly or use.read_only
        await self._check_target(request.target_path, device, read_only)
        await blocking(make_file if use.block else check_no_file, request.target_path)
        await self._mounts.bind_mount(source, request.target_path, read_only)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest
    ) -> csi.NodeUnpublishVolumeResponse:
        await self._mounts.unmount(request.target_path)
        if not await blocking(remove_file, request.target_path):
            await self._mounts.remove_mount_point(request.target_path)
        return csi.NodeUnpublishVolumeResponse()

    async def _staged(self, request: csi.NodePublishVolumeRequest, device: str) -> str:
        if await mount_of_device(self._mounts, device, request.staging_target_path) is None:
            raise not_staged(request.volume_id, request.staging_target_path)
        return request.staging_target_path

    async def _check_target(self, target: str, device: str, read_only: bool) -> None:
        """Raises CsiError if something else is mounted at the target, or the volume with another access."""
        here = await mount_at_path(self._mounts, target)
        if here is not None:
            check_mounted_target(
                target,
                here.source,
                is_the_volume=await mount_of_device(self._mounts, device, target) is not None,
                is_read_only="ro" in here.options,
                wanted_read_only=read_only,
            )

    # --- volumes in use

    async def node_get_volume_stats(
        self, request: csi.NodeGetVolumeStatsRequest
    ) -> csi.NodeGetVolumeStatsResponse:
        await self._shown(request.volume_id, request.volume_path)
        return csi.NodeGetVolumeStatsResponse(usage=await blocking(volume_usage, request.volume_path))

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        device = await self._shown(request.volume_id, request.volume_path)
        size = await blocking(device_size, device)
        if size < request.capacity_range.required_bytes:
            raise CsiError(
                Code.UNAVAILABLE,
                f"{device} of {request.volume_id} has {size} bytes, {request.capacity_range.required_bytes} are asked "
                f"for: ControllerExpandVolume comes first, and this machine learns of it a little later",
            )
        if not await blocking(raw_device, request.volume_path):
            await self._mounts.resize(device, request.volume_path)
        return csi.NodeExpandVolumeResponse(capacity_bytes=size)

    async def _shown(self, volume_id: str, path: str) -> str:
        """The device that is mounted at the path. Raises CsiError, NOT_FOUND, unless it is the volume's."""
        there = await mount_at_path(self._mounts, path)
        if there is not None:
            number = await blocking(shown_device, path, there.device)
            device = await blocking(self._devices.volume_at, number, volume_id)
            if device is not None:
                return device
        raise CsiError(Code.NOT_FOUND, f"volume {volume_id} is not at {path}")

    # --- what is there

    async def _find(self, volume_id: str, attached_as: str, partition: int) -> str:
        """Waits a little for the volume's device. Raises CsiError as `DeviceFinder.find` does."""
        check_volume_id(volume_id)
        loop = asyncio.get_running_loop()
        enough = loop.time() + self._device_wait_s
        while True:
            try:
                return await blocking(self._devices.find, volume_id, attached_as, partition)
            except CsiError as error:
                if error.code is Code.INVALID_ARGUMENT or loop.time() >= enough:
                    raise
            await asyncio.sleep(DEVICE_LOOK_S)

    async def _clear_dead_mount(self, path: str) -> None:
        """Unmounts a stale mount whose device has gone from this machine, for example by a force detach. It
        cannot be read or written any more, and blocks the path."""
        there = await mount_at_path(self._mounts, path)
        if there is None:
            return
        number = await blocking(shown_device, path, there.device)
        if number[0] != _NO_DEVICE and await blocking(self._devices.disk_of, number) is None:
            await self._mounts.unmount(path)


_NO_DEVICE = 0
"""Major number of file systems without a device: tmpfs, overlay."""
