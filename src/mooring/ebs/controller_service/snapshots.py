"""Creating, deleting and finding snapshots.

EC2 has no client token for snapshots. The snapshotter looks a snapshot up by its name's tag before it creates
one; because descriptions lag, it first waits for the lag after its last call for that name and after the
start of its process. Two live controllers may still create two snapshots for a name; both then take the older
one.
"""

from __future__ import annotations

import structlog

from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.error_codes import NO_SNAPSHOT
from mooring.ebs.controller_service.parameters import snapshot_tags
from mooring.ebs.controller_service.presence import making, snapshot_there
from mooring.ebs.controller_service.tags import TagPolicy, specification
from mooring.ebs.ec2 import records
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.describe import Describe, could_be
from mooring.ebs.ec2.records import Fields, Snapshot
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Error

_log = structlog.get_logger(__name__)


class Snapshotter:
    """Makes and deletes snapshots, many at once."""

    def __init__(self, api: Ec2Api, describe: Describe, settling: Settling, tags: TagPolicy) -> None:
        self._api = api
        self._describe = describe
        self._settling = settling
        self._tags = tags

    async def create(self, request: csi.CreateSnapshotRequest) -> Snapshot:
        """Returns the snapshot of that name, which may be pending. Raises CsiError, EbsError."""
        tags = self._tags.of_snapshot(request.name, snapshot_tags(request.parameters))
        found = await self._settling.looked_up(lambda: self._lookup(request.name), _create(request.name))
        if found is None:
            return await self._make(request, tags)
        _check_usable(found, request)
        return found

    async def _lookup(self, name: str) -> Snapshot | None:
        found = await self._describe.snapshots_named(name)
        found = tuple(each for each in found if not self._settling.is_recent(_delete(each.id)))
        if len(found) > 1:
            _log.warning(
                "there are several snapshots for one name: the first is used",
                name=name, snapshots=[each.id for each in found],
            )  # fmt: skip
        return found[0] if found else None

    async def _make(self, request: csi.CreateSnapshotRequest, tags: dict[str, str]) -> Snapshot:
        if not could_be("vol", request.source_volume_id):
            raise CsiError(Code.NOT_FOUND, f"there is no volume {request.source_volume_id}")
        parameters = {
            "VolumeId": request.source_volume_id,
            "Description": f"Created by the EBS CSI driver for volume {request.source_volume_id}",
            "TagSpecifications": specification("snapshot", tags),
        }
        try:
            answer = await self._api.call("CreateSnapshot", parameters)
        finally:
            self._settling.note(_create(request.name))
        made = records.snapshot(Fields(answer, "CreateSnapshot"))
        self._settling.note(making(made.id))
        return made

    async def delete(self, snapshot_id: str) -> None:
        """Returns when EC2 has no such snapshot. Raises EbsError, also if an image uses it."""
        if not could_be("snap", snapshot_id):
            return
        try:
            await self._api.call("DeleteSnapshot", {"SnapshotId": snapshot_id})
        except Ec2Error as error:
            if error.code not in NO_SNAPSHOT:
                raise
        self._settling.note(_delete(snapshot_id))

    async def get(self, snapshot_id: str) -> Snapshot:
        """The snapshot. Raises CsiError, NOT_FOUND; EbsError."""
        return await snapshot_there(self._describe, self._settling, snapshot_id)

    async def listed(self, snapshot_id: str, volume_id: str) -> dict[str, Snapshot]:
        """This cluster's snapshots, by id; an empty parameter selects all."""
        if snapshot_id:
            one = await self._describe.snapshot(snapshot_id)
            found = {one.id: one} if one and volume_id in ("", one.volume_id) else {}
        elif volume_id and not could_be("vol", volume_id):
            found = {}
        else:
            found = await self._describe.all_snapshots(self._tags.listed(), volume_id)
        return {id: one for id, one in found.items() if not self._settling.is_recent(_delete(id))}


def _check_usable(found: Snapshot, request: csi.CreateSnapshotRequest) -> None:
    """Raises CsiError unless the snapshot is the requested one."""
    if found.volume_id != request.source_volume_id:
        raise CsiError(
            Code.ALREADY_EXISTS,
            f"there is a snapshot {found.id} of the name {request.name}, of volume {found.volume_id}: "
            "take another name",
        )
    if found.state == "error":
        raise CsiError(
            Code.INTERNAL,
            f"snapshot {found.id} of the name {request.name} went wrong: {found.message or 'delete it'}",
        )


def snapshot_message(snapshot: Snapshot) -> csi.Snapshot:
    """The snapshot as CSI's message."""
    message = csi.Snapshot(
        snapshot_id=snapshot.id,
        source_volume_id=snapshot.volume_id,
        size_bytes=snapshot.size * GIB,
        ready_to_use=snapshot.state == "completed",
    )
    message.creation_time.FromDatetime(snapshot.started)
    return message


def _create(name: str) -> str:
    return f"snapshot {name}"


def _delete(snapshot_id: str) -> str:
    return f"delete {snapshot_id}"
