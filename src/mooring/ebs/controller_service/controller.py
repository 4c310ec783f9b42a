"""The controller service of `ebs.csi.aws.com`: translates between CSI's messages and the modules that act.

Guarantee: every refusal and every malformed answer of EC2 becomes a CsiError with a code of `error_codes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from mooring.csi.driver.rules import IN_FLIGHT as RULES
from mooring.csi.driver.services import ControllerCapability, ControllerService
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.capabilities import DEVICE_PATH, check_capabilities, refusal
from mooring.ebs.controller_service.attaching import Attacher
from mooring.ebs.controller_service.detaches import PendingDetaches
from mooring.ebs.controller_service.device_names import DeviceNames
from mooring.ebs.controller_service.error_codes import answering
from mooring.ebs.controller_service.listing import Listing, entry, volume_message
from mooring.ebs.controller_service.modifying import Modifier, target_of
from mooring.ebs.controller_service.parameters import BLOCK_ATTACH, change
from mooring.ebs.controller_service.presence import volume_there
from mooring.ebs.controller_service.provisioning import Provisioner
from mooring.ebs.controller_service.readiness import Readiness
from mooring.ebs.controller_service.snapshots import Snapshotter, snapshot_message
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.ebs.controller_service.volume_requests import wanted_volume
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.describe import Describe
from mooring.ebs.ec2.paced import PacedApi
from mooring.ebs.ec2.records import Snapshot, Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.options import Options

IN_FLIGHT: Mapping[str, tuple[str, ...]] = {
    method: ("volume_id", "node_id")
    if method in ("ControllerPublishVolume", "ControllerUnpublishVolume")
    else fields
    for method, fields in RULES.items()
    if method not in ("ControllerExpandVolume", "ControllerModifyVolume")
}
"""For `Driver.in_flight`. A volume may be attached to several nodes at once, and modified while it is
attached or detached; concurrent modifications of a volume become one instead of being ABORTED."""
GIVES_WAY: Mapping[str, tuple[str, ...]] = {
    "ControllerPublishVolume": ("ControllerUnpublishVolume",),
    "ControllerUnpublishVolume": ("ControllerPublishVolume",),
}
"""For `Driver.gives_way` (origin design: each of them cancels the other)."""

_C = ControllerCapability


class EbsController(ControllerService):
    """All of CSI's controller methods that the driver has. `check` is for Probe."""

    capabilities = (
        _C.CREATE_DELETE_VOLUME,
        _C.PUBLISH_UNPUBLISH_VOLUME,
        _C.LIST_VOLUMES,
        _C.LIST_VOLUMES_PUBLISHED_NODES,
        _C.CREATE_DELETE_SNAPSHOT,
        _C.LIST_SNAPSHOTS,
        _C.GET_SNAPSHOT,
        _C.CLONE_VOLUME,
        _C.EXPAND_VOLUME,
        _C.MODIFY_VOLUME,
    )

    def __init__(
        self,
        readiness: Readiness,
        describe: Describe,
        settling: Settling,
        tags: TagPolicy,
        attacher: Attacher,
        provisioner: Provisioner,
        modifier: Modifier,
        snapshotter: Snapshotter,
    ) -> None:
        time = asyncio.get_running_loop().time
        self._readiness = readiness
        self._describe = describe
        self._settling = settling
        self._tags = tags
        self._attacher = attacher
        self._provisioner = provisioner
        self._modifier = modifier
        self._snapshotter = snapshotter
        self._volumes: Listing[Volume] = Listing(time)
        self._snapshots: Listing[Snapshot] = Listing(time)

    # --- volumes

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        with answering(f"create volume {request.name}"):
            wanted = wanted_volume(request, self._tags, await self._source(request))
            volume = await self._provisioner.create(wanted)
        message = volume_message(volume, wanted.context)
        if request.HasField("volume_content_source"):
            message.content_source.CopyFrom(request.volume_content_source)
        return csi.CreateVolumeResponse(volume=message)

    async def _source(self, request: csi.CreateVolumeRequest) -> Snapshot | Volume | None:
        content = request.volume_content_source
        if content.HasField("snapshot"):
            return await self._snapshotter.get(content.snapshot.snapshot_id)
        if content.HasField("volume"):
            return await self._volume(content.volume.volume_id)
        return None

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        with answering(f"delete volume {request.volume_id}"):
            await self._provisioner.delete(request.volume_id)
        return csi.DeleteVolumeResponse()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        with answering(f"look up volume {request.volume_id}"):
            await self._volume(request.volume_id)
        if problem := refusal(request.volume_capabilities):
            return csi.ValidateVolumeCapabilitiesResponse(message=problem)
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_capabilities=request.volume_capabilities,
            volume_context=request.volume_context,
            parameters=request.parameters,
            mutable_parameters=request.mutable_parameters,
        )
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        async def read() -> Mapping[str, Volume]:
            await self._settling.settle_all()  # who verifies by the list takes back what it does not show
            found = await self._describe.all_volumes(self._tags.listed())
            return {id: one for id, one in found.items() if one.state in ("creating", "available", "in-use")}

        with answering("list volumes"):
            shown, token = await self._volumes.page(request, None, read)
        return csi.ListVolumesResponse(entries=[entry(volume) for volume in shown.values()], next_token=token)

    # --- attachments

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        check_capabilities([request.volume_capability])
        if request.readonly:
            raise CsiError(
                Code.INVALID_ARGUMENT, "EBS attaches volumes for writing; NodePublishVolume can be read-only"
            )
        with answering(f"attach volume {request.volume_id} to {request.node_id}"):
            waits = request.volume_context.get(BLOCK_ATTACH) == "true"
            device = await self._attacher.attach(request.volume_id, request.node_id, waits)
        return csi.ControllerPublishVolumeResponse(publish_context={DEVICE_PATH: device})

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        with answering(f"detach volume {request.volume_id} from {request.node_id or 'all nodes'}"):
            await self._attacher.detach(request.volume_id, request.node_id)
        return csi.ControllerUnpublishVolumeResponse()

    # --- modifications

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        with answering(f"expand volume {request.volume_id}"):
            volume = await self._modifier.expand(request.volume_id, request.capacity_range)
        return csi.ControllerExpandVolumeResponse(
            capacity_bytes=volume_message(volume).capacity_bytes,
            node_expansion_required=not request.volume_capability.HasField("block"),
        )

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        target = target_of(change(request.mutable_parameters), self._tags)
        with answering(f"modify volume {request.volume_id}"):
            await self._volume(request.volume_id)
            await self._modifier.change(request.volume_id, target)
        return csi.ControllerModifyVolumeResponse()

    # --- snapshots

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        with answering(f"create snapshot {request.name} of volume {request.source_volume_id}"):
            snapshot = await self._snapshotter.create(request)
        return csi.CreateSnapshotResponse(snapshot=snapshot_message(snapshot))

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        with answering(f"delete snapshot {request.snapshot_id}"):
            await self._snapshotter.delete(request.snapshot_id)
        return csi.DeleteSnapshotResponse()

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        with answering(f"look up snapshot {request.snapshot_id}"):
            snapshot = await self._snapshotter.get(request.snapshot_id)
        return csi.GetSnapshotResponse(snapshot=snapshot_message(snapshot))

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        async def read() -> Mapping[str, Snapshot]:
            return await self._snapshotter.listed(request.snapshot_id, request.source_volume_id)

        key = request.snapshot_id, request.source_volume_id
        with answering("list snapshots"):
            shown, token = await self._snapshots.page(request, key, read)
        entries = [
            csi.ListSnapshotsResponse.Entry(snapshot=snapshot_message(each)) for each in shown.values()
        ]
        return csi.ListSnapshotsResponse(entries=entries, next_token=token)

    # --- the driver itself

    async def check(self) -> None:
        """Raises CsiError, FAILED_PRECONDITION, unless EC2 answers and accepts our credentials
        (`readiness`)."""
        await self._readiness.check()

    async def _volume(self, volume_id: str) -> Volume:
        return await volume_there(self._describe, self._settling, volume_id)


def make_controller(
    options: Options,
    api: Ec2Api,
    *,
    random: Callable[[], float],
    detaches: PendingDetaches | None = None,
) -> EbsController:
    """The controller service that talks to EC2 through `api`. `random` gives numbers from [0, 1);
    `detaches` records the detaches in flight. Needs a running event loop. Raises ValueError for tags that EC2
    would not accept."""
    tags = TagPolicy(
        options.volume_tags, options.extra_tags, options.k8s_tag_cluster_id, options.warn_on_invalid_tag
    )
    paced = PacedApi(api, random, options.pacing)
    describe = Describe(paced, options.batching)
    settling = Settling(options.settle_time)
    return EbsController(
        Readiness(api),
        describe,
        settling,
        tags,
        Attacher(paced, describe, DeviceNames(random), settling, detaches or PendingDetaches()),
        Provisioner(paced, describe, settling),
        Modifier(paced, describe, settling, options.modify_volume_request_handler_timeout),
        Snapshotter(paced, describe, settling, tags),
    )
