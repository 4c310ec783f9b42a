"""Answers of EC2, as they should be and as they should not."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from cloud_api import create_request, publish_request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.controller import make_controller
from mooring.ebs.ec2 import records
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.records import (
    Attachment,
    BlockDevice,
    Fields,
    Instance,
    Modification,
    Snapshot,
    Volume,
)
from mooring.ebs.errors import EbsError, Ec2Error, MalformedAnswer
from mooring.ebs.options import Options

TIME = datetime(2030, 1, 1, tzinfo=UTC)
VOLUME, NODE, SNAPSHOT = "vol-0123456789abcdef0", "i-0123456789abcdef0", "snap-0123456789abcdef0"

RECORD: dict[str, Any] = {
    "VolumeId": VOLUME,
    "Size": 10,
    "VolumeType": "gp3",
    "State": "in-use",
    "AvailabilityZone": "us-east-1a",
    "CreateTime": TIME,
    "Encrypted": False,
    "Iops": 3000,
    "Tags": [{"Key": "CSIVolumeName", "Value": "pvc-1"}],
    "Attachments": [
        {
            "VolumeId": VOLUME,
            "InstanceId": NODE,
            "Device": "/dev/xvdaa",
            "State": "attached",
            "AttachTime": TIME,
        }
    ],
}
FREE = {**RECORD, "State": "available", "Attachments": []}
TAKEN = {
    "SnapshotId": SNAPSHOT,
    "VolumeId": VOLUME,
    "State": "completed",
    "VolumeSize": 10,
    "StartTime": TIME,
}
CHANGED = {"VolumeId": VOLUME, "ModificationState": "completed", "TargetSize": 20}
ANSWERS: dict[str, dict[str, Any]] = {
    "DescribeVolumes": {"Volumes": [RECORD]},
    "DescribeInstances": {
        "Reservations": [
            {
                "Instances": [
                    {
                        "InstanceId": NODE,
                        "State": {"Name": "running"},
                        "InstanceType": "m5.large",
                        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeId": VOLUME}}],
                    }
                ]
            }
        ]
    },
    "DescribeSnapshots": {"Snapshots": [TAKEN]},
    "DescribeVolumesModifications": {"VolumesModifications": [CHANGED]},
    "DescribeInstanceTypes": {
        "InstanceTypes": [{"InstanceType": "m5.large", "EbsInfo": {"MaximumEbsCards": 1}}]
    },
    "DescribeAvailabilityZones": {"AvailabilityZones": [{"ZoneName": "us-east-1a"}]},
    "CreateVolume": FREE,
    "CopyVolumes": {"Volumes": [FREE]},
    "CreateSnapshot": TAKEN,
    "ModifyVolume": {"VolumeModification": CHANGED},
}
JUNK = st.sampled_from(
    [None, "", "x", -1, 2**70, 0.5, True, [], {}, [None], [{}], datetime(2030, 1, 1), b"x"]
)


def damaged(value: Any) -> st.SearchStrategy[Any]:
    """The value with one part of it, at whatever depth, replaced or left out."""
    if isinstance(value, dict) and value:
        return st.one_of(
            JUNK,
            st.sampled_from(sorted(value)).map(lambda key: {k: v for k, v in value.items() if k != key}),
            st.sampled_from(sorted(value)).flatmap(
                lambda key: damaged(value[key]).map(lambda new: {**value, key: new})
            ),
        )
    if isinstance(value, list) and value:
        return st.one_of(JUNK, st.just([*value, *value]), damaged(value[0]).map(lambda new: [new, *value]))
    return JUNK


def test_a_volume_is_read() -> None:
    volume = records.volume(Fields({**RECORD, "More": 1}, "DescribeVolumes"))
    assert (volume.id, volume.size, volume.name, volume.iops) == (VOLUME, 10, "pvc-1", 3000)
    assert volume.attachments == (Attachment(NODE, "/dev/xvdaa", "attached", TIME),)


@pytest.mark.parametrize(
    ("read", "least", "record"),
    [
        (
            records.volume,
            {
                "VolumeId": VOLUME, "State": "creating", "Size": 1, "VolumeType": "standard",
                "AvailabilityZone": "zone-a", "Attachments": [],
            },
            Volume(VOLUME, "creating", 1, "standard", "zone-a"),
        ),
        (
            records.volume,
            {
                "VolumeId": VOLUME, "State": "in-use", "Size": 1, "VolumeType": "standard",
                "AvailabilityZone": "zone-a", "Attachments": [{"State": "attached"}],
            },
            Volume(VOLUME, "in-use", 1, "standard", "zone-a", (Attachment("", "", "attached"),)),
        ),
        (
            records.instance,
            {
                "InstanceId": NODE, "State": {"Name": "pending"},
                "BlockDeviceMappings": [{"DeviceName": "xvdb"}, {"DeviceName": "xvdc", "Ebs": {"VolumeId": VOLUME}}],
            },
            Instance(NODE, "pending", "", (BlockDevice("xvdb"), BlockDevice("xvdc", VOLUME))),
        ),
        (
            records.snapshot,
            {"SnapshotId": SNAPSHOT, "State": "pending", "VolumeSize": 1, "StartTime": TIME},
            Snapshot(SNAPSHOT, "", "pending", 1, TIME),
        ),
        (
            records.modification,
            {"VolumeId": VOLUME, "ModificationState": "modifying"},
            Modification(VOLUME, "modifying"),
        ),
    ],
)  # fmt: skip
def test_what_ec2_may_leave_out_is_none_empty_and_zero(
    read: Callable[[Fields], object], least: dict[str, Any], record: object
) -> None:
    assert read(Fields(least, "Describe")) == record
    for name in least.keys() - {"BlockDeviceMappings"}:
        with pytest.raises(MalformedAnswer, match=f"Describe.*{name}"):
            read(Fields({**least, name: None}, "Describe"))


@pytest.mark.parametrize(
    ("read", "full", "record"),
    [
        (
            records.volume,
            RECORD | {
                "AvailabilityZoneId": "id-a", "Throughput": 125, "SnapshotId": SNAPSHOT, "SourceVolumeId": "vol-1",
                "Encrypted": True, "KmsKeyId": "key", "MultiAttachEnabled": True,
                "Attachments": [RECORD["Attachments"][0] | {"EbsCardIndex": 1}],
            },
            Volume(
                VOLUME, "in-use", 10, "gp3", "us-east-1a", (Attachment(NODE, "/dev/xvdaa", "attached", TIME, 1),),
                3000, 125, SNAPSHOT, "vol-1", True, "key", True, "id-a", TIME, {"CSIVolumeName": "pvc-1"},
            ),
        ),
        (
            records.instance,
            {
                "InstanceId": NODE, "State": {"Name": "running"}, "InstanceType": "m5.large", "RootDeviceName": "xvda",
                "BlockDeviceMappings": [{"DeviceName": "xvdb", "Ebs": {"VolumeId": VOLUME, "EbsCardIndex": 1}}],
            },
            Instance(NODE, "running", "m5.large", (BlockDevice("xvdb", VOLUME, 1),), "xvda"),
        ),
        (
            records.snapshot,
            TAKEN | {"StateMessage": "why", "Tags": [{"Key": "a"}]},
            Snapshot(SNAPSHOT, VOLUME, "completed", 10, TIME, "why", {"a": ""}),
        ),
        (
            records.modification,
            {
                "VolumeId": VOLUME, "ModificationState": "failed", "TargetSize": 20, "TargetIops": 3000,
                "TargetThroughput": 125, "TargetVolumeType": "gp3", "StatusMessage": "why",
            },
            Modification(VOLUME, "failed", 20, 3000, 125, "gp3", "why"),
        ),
    ],
)  # fmt: skip
def test_all_that_ec2_tells_is_read(
    read: Callable[[Fields], object], full: dict[str, Any], record: object
) -> None:
    assert read(Fields(full, "Describe")) == record


def test_an_attachment_that_is_over_is_none() -> None:
    gone = {**RECORD["Attachments"][0], "State": "detached"}
    assert records.volume(Fields({**RECORD, "Attachments": [gone]}, "DescribeVolumes")).attachments == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"VolumeId": None}, "VolumeId is missing"),
        ({"VolumeId": ""}, "VolumeId is empty"),
        ({"Size": "10"}, "Size is str"),
        ({"Size": -1}, "Size is -1"),
        ({"Attachments": None}, "Attachments is missing"),
        ({"Attachments": [{**RECORD["Attachments"][0], "VolumeId": "vol-1"}]}, "is another volume's"),
        ({"Attachments": RECORD["Attachments"] * 2}, "twice"),
        ({"CreateTime": datetime(2030, 1, 1)}, "no time zone"),
    ],
)
def test_what_cannot_be_names_the_action_and_the_field(change, problem) -> None:
    with pytest.raises(MalformedAnswer, match=r"DescribeVolumes\.Volumes\[0\].*" + problem):
        Fields({"Volumes": [{**RECORD, **change}]}, "DescribeVolumes").each("Volumes", records.volume)


def test_one_volume_that_is_two_is_refused() -> None:
    read = [records.volume(Fields(one, "DescribeVolumes")) for one in (RECORD, {**RECORD, "Size": 11})]
    with pytest.raises(MalformedAnswer, match="twice"):
        records.by_id(read, lambda one: one.id, "DescribeVolumes")


@pytest.mark.parametrize("read", [records.volume, records.instance, records.snapshot, records.modification])
@given(data=st.data())
def test_reading_anything_gives_a_record_or_an_error_of_ours(read, data) -> None:
    sample = data.draw(
        st.sampled_from(
            [RECORD, TAKEN, CHANGED, ANSWERS["DescribeInstances"]["Reservations"][0]["Instances"][0]]
        )
    )
    try:
        found = read(Fields(data.draw(damaged(sample)), "Describe"))
    except EbsError:
        return
    assert type(found).__module__ == records.__name__


class Broken(Ec2Api):
    """Answers one action with something else than it should."""

    def __init__(self, action: str, answer: Any, is_free: bool) -> None:
        self.action = action
        self.answer = answer
        self.is_free = is_free

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        await asyncio.sleep(0.01)
        if asyncio.get_running_loop().time() > 300:
            raise Ec2Error("UnauthorizedOperation", "enough")
        if action == self.action:
            return self.answer
        if action == "DescribeVolumes" and self.is_free:
            return {"Volumes": [FREE]}
        return copy.deepcopy(ANSWERS.get(action, {}))


GROWN = csi.CapacityRange(required_bytes=20 * GIB)
REQUESTS = {
    "create_volume": create_request("pvc-1", 10),
    "delete_volume": csi.DeleteVolumeRequest(volume_id=VOLUME),
    "controller_publish_volume": publish_request(VOLUME, NODE),
    "controller_unpublish_volume": csi.ControllerUnpublishVolumeRequest(volume_id=VOLUME, node_id=NODE),
    "list_volumes": csi.ListVolumesRequest(),
    "list_snapshots": csi.ListSnapshotsRequest(),
    "create_snapshot": csi.CreateSnapshotRequest(name="s", source_volume_id=VOLUME),
    "controller_expand_volume": csi.ControllerExpandVolumeRequest(volume_id=VOLUME, capacity_range=GROWN),
    "controller_modify_volume": csi.ControllerModifyVolumeRequest(
        volume_id=VOLUME, mutable_parameters={"iops": "4000"}
    ),
    "validate_volume_capabilities": csi.ValidateVolumeCapabilitiesRequest(volume_id=VOLUME),
}


@given(
    st.sampled_from(sorted(ANSWERS)),
    st.sampled_from(sorted(REQUESTS)),
    st.booleans(),
    st.booleans(),
    st.data(),
)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_ec2_answers_the_service_answers_with_csis_codes(
    run, action, method, is_free, batching, data
) -> None:
    answer = data.draw(damaged(ANSWERS[action]))

    async def story() -> None:
        options = Options(batching=batching)
        api = Broken(action, answer, is_free)
        controller = make_controller(options, api, random=random.Random(0).random)
        try:
            await getattr(controller, method)(REQUESTS[method])
        except CsiError as error:
            assert error.message

    run(story())
