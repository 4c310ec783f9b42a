"""Where moto answers the same call, our cloud answers alike: the same names, and the same codes of errors.

moto is another EC2 for tests, which many use; it attaches at once, and allows much that EC2 refuses. `KNOWN`
names what differs, each with the reason why ours is as EC2 is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from cloud_server import served
from moto import mock_aws

SESSION = boto3.Session()  # it reads the description of EC2 once for all clients
ZONE = "us-east-1a"
VOLUME, SNAPSHOT, INSTANCE = "vol-00000000000000000", "snap-00000000000000000", "i-00000000000000000"
TAGS = [{"Key": "Name", "Value": "one"}]


@pytest.fixture(scope="module")
def ours() -> Generator[Any]:
    with served() as cloud:
        yield cloud.client()


@pytest.fixture
def theirs() -> Generator[Any]:
    with mock_aws():
        yield SESSION.client("ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")


def an_instance(ec2: Any) -> str:
    image = "ami-12c6146b"
    made = ec2.run_instances(
        ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, Placement={"AvailabilityZone": ZONE}
    )
    instance = made["Instances"][0]["InstanceId"]
    ec2.get_waiter("instance_running").wait(InstanceIds=[instance], WaiterConfig={"Delay": 0.05})
    return instance


def a_volume(ec2: Any, **more: Any) -> str:
    volume = ec2.create_volume(AvailabilityZone=ZONE, Size=4, VolumeType="gp3", **more)["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig={"Delay": 0.02})
    return volume


def an_attached(ec2: Any) -> tuple[str, str]:
    instance, volume = an_instance(ec2), a_volume(ec2)
    ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig={"Delay": 0.02})
    return instance, volume


def a_snapshot(ec2: Any) -> str:
    snapshot = ec2.create_snapshot(VolumeId=a_volume(ec2), Description="of it")["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot], WaiterConfig={"Delay": 0.02})
    return snapshot


def tagged(kind: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": TAGS}]


def describe_attached(ec2: Any) -> Any:
    return ec2.describe_volumes(VolumeIds=[an_attached(ec2)[1]])


def describe_its_instance(ec2: Any) -> Any:
    instance, _ = an_attached(ec2)
    found = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    names = (
        "InstanceId",
        "InstanceType",
        "State",
        "Placement",
        "BlockDeviceMappings",
        "RootDeviceName",
        "LaunchTime",
    )
    return {name: found[name] for name in names}


def detach(ec2: Any) -> Any:
    instance, volume = an_attached(ec2)
    return ec2.detach_volume(VolumeId=volume, InstanceId=instance)


def modify(ec2: Any) -> Any:
    return ec2.modify_volume(VolumeId=a_volume(ec2), Size=8)


def describe_modified(ec2: Any) -> Any:
    volume = a_volume(ec2)
    ec2.modify_volume(VolumeId=volume, Size=8)
    for _ in range(500):
        found = ec2.describe_volumes_modifications(VolumeIds=[volume])
        if found["VolumesModifications"][0]["ModificationState"] == "completed":
            return found
    raise AssertionError("the modification does not end")


def attach(ec2: Any) -> Any:
    return ec2.attach_volume(VolumeId=a_volume(ec2), InstanceId=an_instance(ec2), Device="/dev/sdf")


def delete_in_use(ec2: Any) -> Any:
    return ec2.delete_volume(VolumeId=an_attached(ec2)[1])


def detach_what_is_not_attached(ec2: Any) -> Any:
    return ec2.detach_volume(VolumeId=a_volume(ec2), InstanceId=an_instance(ec2))


def find_by_tag(ec2: Any) -> Any:
    a_volume(ec2, TagSpecifications=tagged("volume"))
    return ec2.describe_volumes(Filters=[{"Name": "tag:Name", "Values": ["on*"]}])


def tag_and_look(ec2: Any) -> Any:
    volume = a_volume(ec2)
    ec2.create_tags(Resources=[volume], Tags=TAGS)
    return ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [volume]}])


ANSWERS: Mapping[str, Callable[[Any], Any]] = {
    "CreateVolume": lambda ec2: ec2.create_volume(
        AvailabilityZone=ZONE, Size=4, VolumeType="gp3", TagSpecifications=tagged("volume")
    ),
    "DescribeVolumes": describe_attached,
    "DescribeVolumes by tag": find_by_tag,
    "AttachVolume": attach,
    "DetachVolume": detach,
    "DescribeInstances": describe_its_instance,
    "CreateSnapshot": lambda ec2: ec2.create_snapshot(
        VolumeId=a_volume(ec2), Description="of it", TagSpecifications=tagged("snapshot")
    ),
    "DescribeSnapshots": lambda ec2: ec2.describe_snapshots(SnapshotIds=[a_snapshot(ec2)]),
    "CreateVolume of a snapshot": lambda ec2: ec2.create_volume(
        AvailabilityZone=ZONE, SnapshotId=a_snapshot(ec2)
    ),
    "ModifyVolume": modify,
    "DescribeVolumesModifications": describe_modified,
    "DescribeAvailabilityZones": lambda ec2: ec2.describe_availability_zones(),
    "DescribeTags": tag_and_look,
    "DeleteVolume": lambda ec2: ec2.delete_volume(VolumeId=a_volume(ec2)),
    "DeleteSnapshot": lambda ec2: ec2.delete_snapshot(SnapshotId=a_snapshot(ec2)),
}

REFUSALS: Mapping[str, Callable[[Any], Any]] = {
    "DescribeVolumes, no such volume": lambda ec2: ec2.describe_volumes(VolumeIds=[VOLUME]),
    "DeleteVolume, no such volume": lambda ec2: ec2.delete_volume(VolumeId=VOLUME),
    "AttachVolume, no such volume": lambda ec2: ec2.attach_volume(
        VolumeId=VOLUME, InstanceId=an_instance(ec2), Device="/dev/sdf"
    ),
    "AttachVolume, no such instance": lambda ec2: ec2.attach_volume(
        VolumeId=a_volume(ec2), InstanceId=INSTANCE, Device="/dev/sdf"
    ),
    "DetachVolume, not attached": detach_what_is_not_attached,
    "DeleteVolume, in use": delete_in_use,
    "DescribeSnapshots, no such snapshot": lambda ec2: ec2.describe_snapshots(SnapshotIds=[SNAPSHOT]),
    "DeleteSnapshot, no such snapshot": lambda ec2: ec2.delete_snapshot(SnapshotId=SNAPSHOT),
    "DescribeInstances, no such instance": lambda ec2: ec2.describe_instances(InstanceIds=[INSTANCE]),
    "CreateVolume, dry run": lambda ec2: ec2.create_volume(AvailabilityZone=ZONE, Size=1, DryRun=True),
    "DescribeAvailabilityZones, dry run": lambda ec2: ec2.describe_availability_zones(DryRun=True),
    "CreateTags, too many": lambda ec2: ec2.create_tags(
        Resources=[a_volume(ec2)], Tags=[{"Key": f"k{number}", "Value": "v"} for number in range(51)]
    ),
    "CreateVolume, io1 without IOPS": lambda ec2: ec2.create_volume(
        AvailabilityZone=ZONE, Size=10, VolumeType="io1"
    ),
}

KNOWN: Mapping[str, str] = {
    "ModifyVolume: VolumeModification.EndTime": "EC2's answer comes at the beginning; moto has finished by then",
    "DetachVolume, not attached: InvalidAttachment.NotFound": "EC2 says IncorrectState of a volume that is available",
    "CreateVolume, io1 without IOPS: InvalidParameterDependency": "EC2 says MissingParameter, and so do we",
}
"""What of theirs ours does not have, by call and path (or code): why."""


@pytest.mark.parametrize("name", ANSWERS)
def test_our_answer_says_what_motos_says(name: str, ours: Any, theirs: Any) -> None:
    there, here = paths(ANSWERS[name](theirs)), paths(ANSWERS[name](ours))
    missing = {path for path in there - here if f"{name}: {path}" not in KNOWN}
    assert missing == set()


@pytest.mark.parametrize("name", REFUSALS)
def test_what_moto_refuses_we_refuse_with_the_same_code(name: str, ours: Any, theirs: Any) -> None:
    there, here = code_of(REFUSALS[name], theirs), code_of(REFUSALS[name], ours)
    assert here == there or f"{name}: {there}" in KNOWN


def test_every_known_difference_is_one(ours: Any, theirs: Any) -> None:
    calls = {**ANSWERS, **REFUSALS}
    assert {known.split(": ")[0] for known in KNOWN} <= calls.keys()


def code_of(refused: Callable[[Any], Any], ec2: Any) -> str:
    with pytest.raises(ClientError) as caught:
        refused(ec2)
    return caught.value.response["Error"]["Code"]


def paths(answer: Any, where: str = "") -> set[str]:
    """The names of an answer, with those of what is in it: {"Volumes[].Size", ...}."""
    if isinstance(answer, dict):
        below = (
            (f"{where}.{key}".lstrip("."), value)
            for key, value in answer.items()
            if key != "ResponseMetadata"
        )
        return {path for name, value in below for path in {name} | paths(value, name)}
    if isinstance(answer, list):
        return {path for item in answer for path in paths(item, f"{where}[]")}
    return set()
