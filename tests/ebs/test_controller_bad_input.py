"""Requests that are wrong: the answer is a code that says so, and nothing else happens."""

from __future__ import annotations

from cloud_api import create, create_request, publish_request, world
from csi_messages import nearly
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller

VOLUME, NODE = "vol-0123456789abcdef0", "i-0123456789abcdef0"
KNOWN = (
    VOLUME,
    NODE,
    "tagSpecification_1",
    "a={{ .PVCName }}",
    "type",
    "iops",
    "kmsKeyId",
    "pvc-1",
    "us-east-1a",
)
REQUESTS = {
    Controller.create_volume: create_request("pvc-2", 10, "us-east-1a", parameters={"type": "gp3"}),
    Controller.delete_volume: csi.DeleteVolumeRequest(volume_id=VOLUME),
    Controller.controller_publish_volume: publish_request(VOLUME, NODE),
    Controller.controller_unpublish_volume: csi.ControllerUnpublishVolumeRequest(
        volume_id=VOLUME, node_id=NODE
    ),
    Controller.validate_volume_capabilities: csi.ValidateVolumeCapabilitiesRequest(volume_id=VOLUME),
    Controller.list_volumes: csi.ListVolumesRequest(max_entries=2),
    Controller.list_snapshots: csi.ListSnapshotsRequest(max_entries=2),
    Controller.create_snapshot: csi.CreateSnapshotRequest(name="s", source_volume_id=VOLUME),
    Controller.delete_snapshot: csi.DeleteSnapshotRequest(snapshot_id="snap-0123456789abcdef0"),
    Controller.controller_expand_volume: csi.ControllerExpandVolumeRequest(
        volume_id=VOLUME, capacity_range=csi.CapacityRange(required_bytes=1)
    ),
    Controller.controller_modify_volume: csi.ControllerModifyVolumeRequest(
        volume_id=VOLUME, mutable_parameters={"iops": "4000"}
    ),
}


@given(
    st.sampled_from(list(REQUESTS)).flatmap(
        lambda rpc: nearly(REQUESTS[rpc], *KNOWN).map(lambda made: (rpc, made))
    )
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bad_requests_are_refused_and_never_the_drivers_own_fault(run, call) -> None:
    rpc, request = call

    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client)).volume_id
            try:
                await getattr(client.controller, rpc.attribute)(request, timeout_s=9999)
            except CsiError as error:
                assert error.code not in (Code.INTERNAL, Code.UNKNOWN), error.message
            assert w.named("pvc-1") == [made] or request.volume_id == made

    run(story())
