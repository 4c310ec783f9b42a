"""What the played CSI driver does beside, where its storage keeps snapshots and copies disks."""

from __future__ import annotations

from datetime import timedelta

from mooring.csi.driver.services import ControllerCapability, ControllerService
from mooring.csi.proto import csi_pb2 as csi
from mooring.simulation.engine.event_loop import START
from mooring.simulation.parts.kept_snapshots import KeptSnapshot, KeptSnapshots
from mooring.volumes.errors import SnapshotNotFound

C = ControllerCapability


class SnapshotService(ControllerService):
    """The calls for snapshots; `capabilities`: what a driver says that has them."""

    capabilities = (C.CREATE_DELETE_SNAPSHOT, C.LIST_SNAPSHOTS, C.CLONE_VOLUME)

    def __init__(self, snapshots: KeptSnapshots) -> None:
        self._snapshots = snapshots

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        taken = await self._snapshots.take(request.source_volume_id, request.name)
        return csi.CreateSnapshotResponse(snapshot=_shown(taken))

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        await self._snapshots.delete(request.snapshot_id)
        return csi.DeleteSnapshotResponse()

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        """The one that is asked for, if it is there."""
        reply = csi.ListSnapshotsResponse()
        try:
            reply.entries.add().snapshot.CopyFrom(_shown(self._snapshots.get(request.snapshot_id)))
        except SnapshotNotFound:
            return csi.ListSnapshotsResponse()
        return reply


def source_of(request: csi.CreateVolumeRequest) -> str:
    """The snapshot or the disk that a new one is to be a copy of; "": it is to be empty."""
    content = request.volume_content_source
    return content.snapshot.snapshot_id or content.volume.volume_id


def _shown(kept: KeptSnapshot) -> csi.Snapshot:
    shown = csi.Snapshot(
        snapshot_id=kept.handle, source_volume_id=kept.of, size_bytes=kept.size, ready_to_use=kept.ready
    )
    shown.creation_time.FromDatetime(START + timedelta(seconds=kept.at))
    return shown
