"""Snapshots of a CSI driver's volumes: CreateSnapshot, DeleteSnapshot, and finding an existing one."""

from __future__ import annotations

from datetime import UTC

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller
from mooring.volumes.errors import OutcomeUnknown, SnapshotNotFound
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Snapshot, SnapshotOptions
from mooring.volumes.plugins.csi.drivers import ControllerAbility, Driver, cannot
from mooring.volumes.plugins.csi.source import read_secret


class CSISnapshots:
    """The snapshots of one driver."""

    def __init__(self, driver: Driver, host: VolumeHost) -> None:
        self._driver = driver
        self._host = host

    async def create(self, handle: str, name: str, options: SnapshotOptions) -> Snapshot:
        """Raises InvalidSpec if the driver takes no snapshots."""
        if not await self._driver.controller_can(ControllerAbility.CREATE_DELETE_SNAPSHOT):
            raise cannot(self._driver, "take snapshots: it lacks CREATE_DELETE_SNAPSHOT")
        request = csi.CreateSnapshotRequest(
            source_volume_id=handle,
            name=name,
            secrets=await read_secret(self._host, options.secret),
            parameters=options.parameters,
        )
        taken = (await self._driver.call(Controller.create_snapshot, request)).snapshot
        if not taken.snapshot_id:
            raise OutcomeUnknown(
                f"CSI driver {self._driver.name} took snapshot {name} and gave no snapshot_id"
            )
        return _snapshot(taken)

    async def get(self, handle: str, options: SnapshotOptions) -> Snapshot:
        """Returns the snapshot of that handle. A driver that can neither get nor list snapshots is assumed to
        have it. Raises SnapshotNotFound."""
        secrets = await read_secret(self._host, options.secret)
        if await self._driver.controller_can(ControllerAbility.GET_SNAPSHOT):
            request = csi.GetSnapshotRequest(snapshot_id=handle, secrets=secrets)
            return _snapshot((await self._driver.call(Controller.get_snapshot, request)).snapshot)
        if not await self._driver.controller_can(ControllerAbility.LIST_SNAPSHOTS):
            return Snapshot(handle, 0, self._host.now())
        listed = csi.ListSnapshotsRequest(snapshot_id=handle, secrets=secrets)
        for entry in (await self._driver.call(Controller.list_snapshots, listed)).entries:
            if entry.snapshot.snapshot_id == handle:
                return _snapshot(entry.snapshot)
        raise SnapshotNotFound(f"CSI driver {self._driver.name} has no snapshot {handle}: check the name")

    async def delete(self, handle: str, options: SnapshotOptions) -> None:
        secrets = await read_secret(self._host, options.secret)
        request = csi.DeleteSnapshotRequest(snapshot_id=handle, secrets=secrets)
        await self._driver.call(Controller.delete_snapshot, request)


def _snapshot(made: csi.Snapshot) -> Snapshot:
    created = made.creation_time.ToDatetime(UTC)
    return Snapshot(made.snapshot_id, made.size_bytes, created, ready=made.ready_to_use)
