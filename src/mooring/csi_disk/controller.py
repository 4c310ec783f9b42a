"""The controller service of `disk.mooring.dev`: volumes are disks of the array, snapshots are the array's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mooring.csi.driver.capacity import fits
from mooring.csi.driver.paging import page
from mooring.csi.driver.services import ControllerCapability, ControllerService
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi_disk.nodes import Nodes
from mooring.csi_disk.values import FS_TYPE, SIZES, TOPOLOGY_KEY, check_use, parameters_of, refusal, volume_id
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import VolumeNotFound
from mooring.volumes.interfaces import ContentSource
from mooring.volumes.plugins.disk_array import Disk, DiskArray
from mooring.volumes.plugins.disk_attachment import attach_disk, detach_disk
from mooring.volumes.plugins.disk_faults import meet_trouble
from mooring.volumes.plugins.disk_snapshots import DiskSnapshots, SnapshotRecord
from mooring.volumes.plugins.disk_source import Parameters

_C = ControllerCapability


class DiskController(ControllerService):
    """CSI's controller methods on the array. `driver.CODES` has the codes for the array's exceptions."""

    capabilities = (
        _C.CREATE_DELETE_VOLUME,
        _C.PUBLISH_UNPUBLISH_VOLUME,
        _C.LIST_VOLUMES,
        _C.LIST_VOLUMES_PUBLISHED_NODES,
        _C.GET_VOLUME,
        _C.GET_CAPACITY,
        _C.CREATE_DELETE_SNAPSHOT,
        _C.LIST_SNAPSHOTS,
        _C.GET_SNAPSHOT,
        _C.CLONE_VOLUME,
        _C.EXPAND_VOLUME,
        _C.SINGLE_NODE_MULTI_WRITER,
    )

    def __init__(self, root: Path, array: DiskArray, snapshots: DiskSnapshots, machine: str) -> None:
        self._root = root
        self._array = array
        self._snapshots = snapshots
        self._nodes = Nodes(root, array)
        self._machine = machine

    # --- volumes

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        given = parameters_of(request.parameters)
        check_use(request.volume_capabilities, given.exclusive)
        self._check_reachable(request.accessibility_requirements)
        disk = volume_id(request.name)
        record = await blocking(self._existing, disk) or await blocking(self._make, disk, given, request)
        if not fits(record.size, request.capacity_range) or record.exclusive != given.exclusive:
            raise CsiError(
                Code.ALREADY_EXISTS,
                f"there is another volume {request.name}, of {record.size} bytes: take another name",
            )
        volume = self._volume(disk, record)
        volume.volume_context[FS_TYPE] = given.fs_type
        if request.HasField("volume_content_source"):
            volume.content_source.CopyFrom(request.volume_content_source)
        return csi.CreateVolumeResponse(volume=volume)

    def _make(self, disk: str, given: Parameters, request: csi.CreateVolumeRequest) -> Disk:
        def make(fill: Callable[[Path], None] | None = None) -> Disk:
            return self._array.create(disk, size, given.exclusive, given.delays, fill)

        content = request.volume_content_source
        source = ContentSource(snapshot=content.snapshot.snapshot_id, volume=content.volume.volume_id)
        least = self._size_of(source)
        if least and 0 < request.capacity_range.required_bytes < least:
            raise CsiError(
                Code.OUT_OF_RANGE, f"what the volume is to hold needs {least} bytes: ask for as many"
            )
        size = SIZES.choose(request.capacity_range, least)
        return self._snapshots.restore(source, disk, size, make) if least else make()

    def _size_of(self, source: ContentSource) -> int:
        if source.snapshot:
            return self._snapshots.record(source.snapshot).size
        return self._array.get(source.volume).size if source.volume else 0

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        if await blocking(self._existing, request.volume_id):
            await meet_trouble(self._array, request.volume_id, "delete")
        await blocking(self._array.delete, request.volume_id)
        return csi.DeleteVolumeResponse()

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        record = await blocking(self._array.get, request.volume_id)
        size = SIZES.choose(request.capacity_range, least=record.size)
        await meet_trouble(self._array, request.volume_id, "expand")
        grown = await blocking(self._array.expand, request.volume_id, size)
        return csi.ControllerExpandVolumeResponse(
            capacity_bytes=grown.size, node_expansion_required=not request.volume_capability.HasField("block")
        )

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        record = await blocking(self._array.get, request.volume_id)
        reasons = [refusal(capability, record.exclusive) for capability in request.volume_capabilities]
        if any(reasons):
            return csi.ValidateVolumeCapabilitiesResponse(message="; ".join(filter(None, reasons)))
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_capabilities=request.volume_capabilities,
            volume_context=request.volume_context,
            parameters=request.parameters,
        )
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    # --- attachments

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        record = await blocking(self._array.get, request.volume_id)
        check_use([request.volume_capability], record.exclusive)
        if request.readonly:
            raise CsiError(
                Code.INVALID_ARGUMENT, "disks are attached for writing; NodePublishVolume can be read-only"
            )
        async with self._nodes.room_for(request.volume_id, request.node_id):
            path = await attach_disk(self._array, request.volume_id, request.node_id)
        return csi.ControllerPublishVolumeResponse(publish_context={"devicePath": path})

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        record = await blocking(self._existing, request.volume_id)
        attached = record.nodes if record else ()
        for node in [request.node_id] if request.node_id else attached:
            await detach_disk(self._array, request.volume_id, node)
        return csi.ControllerUnpublishVolumeResponse()

    # --- lists

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        shown, token = page(await blocking(self._array.list), request)
        entries = [
            csi.ListVolumesResponse.Entry(
                volume=self._volume(disk, record),
                status=csi.ListVolumesResponse.VolumeStatus(published_node_ids=record.nodes),
            )
            for disk, record in shown.items()
        ]
        return csi.ListVolumesResponse(entries=entries, next_token=token)

    async def controller_get_volume(
        self, request: csi.ControllerGetVolumeRequest
    ) -> csi.ControllerGetVolumeResponse:
        record = await blocking(self._array.get, request.volume_id)
        status = csi.ControllerGetVolumeResponse.VolumeStatus(published_node_ids=record.nodes)
        return csi.ControllerGetVolumeResponse(volume=self._volume(request.volume_id, record), status=status)

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        given = parameters_of(request.parameters)
        elsewhere = request.HasField("accessible_topology") and not self._is_here(request.accessible_topology)
        if elsewhere or any(
            refusal(capability, given.exclusive) for capability in request.volume_capabilities
        ):
            return csi.GetCapacityResponse(available_capacity=0)
        room = await blocking(os.statvfs, self._root)
        reply = csi.GetCapacityResponse(available_capacity=room.f_bavail * room.f_frsize)
        reply.maximum_volume_size.value = SIZES.largest
        reply.minimum_volume_size.value = SIZES.smallest
        return reply

    # --- snapshots

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        name = volume_id(request.name)
        await blocking(self._snapshots.create, request.source_volume_id, name)
        record = await blocking(self._snapshots.record, name)
        if record.disk != request.source_volume_id:
            raise CsiError(
                Code.ALREADY_EXISTS, f"there is a snapshot {request.name} of another volume, {record.disk}"
            )
        return csi.CreateSnapshotResponse(snapshot=_snapshot(name, record))

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        await blocking(self._snapshots.delete, request.snapshot_id)
        return csi.DeleteSnapshotResponse()

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        record = await blocking(self._snapshots.record, request.snapshot_id)
        return csi.GetSnapshotResponse(snapshot=_snapshot(request.snapshot_id, record))

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        found = {
            name: record
            for name, record in (await blocking(self._snapshots.list)).items()
            if request.snapshot_id in ("", name) and request.source_volume_id in ("", record.disk)
        }
        shown, token = page(found, request)
        entries = [
            csi.ListSnapshotsResponse.Entry(snapshot=_snapshot(name, record))
            for name, record in shown.items()
        ]
        return csi.ListSnapshotsResponse(entries=entries, next_token=token)

    # --- what is where

    def _existing(self, disk: str) -> Disk | None:
        try:
            return self._array.get(disk)
        except VolumeNotFound:
            return None

    def _volume(self, disk: str, record: Disk) -> csi.Volume:
        here = csi.Topology(segments={TOPOLOGY_KEY: self._machine})
        return csi.Volume(volume_id=disk, capacity_bytes=record.size, accessible_topology=[here])

    def _check_reachable(self, wanted: csi.TopologyRequirement) -> None:
        places: Sequence[csi.Topology] = [*wanted.requisite] or [*wanted.preferred]
        if places and not any(map(self._is_here, places)):
            raise CsiError(
                Code.RESOURCE_EXHAUSTED, f"this array is reachable from machine {self._machine} only"
            )

    def _is_here(self, place: csi.Topology) -> bool:
        return place.segments.get(TOPOLOGY_KEY, self._machine) == self._machine


def _snapshot(name: str, record: SnapshotRecord) -> csi.Snapshot:
    snapshot = csi.Snapshot(
        snapshot_id=name, source_volume_id=record.disk, size_bytes=record.size, ready_to_use=True
    )
    snapshot.creation_time.FromDatetime(record.created)
    return snapshot
