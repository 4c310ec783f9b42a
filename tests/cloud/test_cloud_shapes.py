"""Every answer has the shape that EC2's own description gives it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import botocore.session
import pytest
from botocore.model import Shape
from virtual_cloud import VirtualCloud

from mooring.cloud.cloud import ACTIONS

MODEL = botocore.session.get_session().get_service_model("ec2")
PYTHON = {"string": str, "integer": int, "long": int, "boolean": bool, "timestamp": datetime, "double": float}


def wrong(shape: Any, value: Any, path: str) -> list[str]:
    """Where the value is not of the shape."""
    if shape.type_name == "structure":
        unknown = [f"{path}.{name} is not of the answer" for name in value if name not in shape.members]
        return unknown + [
            each
            for name in value
            if name in shape.members
            for each in wrong(shape.members[name], value[name], f"{path}.{name}")
        ]
    if shape.type_name == "list":
        return [each for one in value for each in wrong(shape.member, one, f"{path}[]")]
    if type(value) is not PYTHON[shape.type_name] and not isinstance(value, PYTHON[shape.type_name]):
        return [f"{path} is a {type(value).__name__}, not a {shape.type_name}"]
    if getattr(shape, "enum", None) and value not in shape.enum:
        return [f"{path} is {value!r}, none of the values that there are"]
    return []


def answer_shape(action: str) -> Shape | None:
    return MODEL.operation_model(action).output_shape


async def answers() -> dict[str, dict[str, Any]]:
    """One answer of each action."""
    world = VirtualCloud(initializing_s=[5, 5])
    [instance] = world.cloud.launch(1)
    io2 = await world.volume(VolumeType="io2", Size=4, Iops=100, Encrypted=True)
    snapshot = (await world("CreateSnapshot", VolumeId=io2))["SnapshotId"]
    await world.wait(20)
    volume = await world.volume(SnapshotId=snapshot, Size=4, VolumeInitializationRate=200)
    spec = [{"ResourceType": "volume", "Tags": [{"Key": "a", "Value": "b"}]}]
    place = {"AvailabilityZone": "us-east-1a"}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("CreateVolume", {"Size": 1, "TagSpecifications": spec, **place}),
        ("CopyVolumes", {"SourceVolumeId": volume}),
        ("AttachVolume", {"VolumeId": volume, "InstanceId": instance, "Device": "/dev/sdf"}),
        ("ModifyVolume", {"VolumeId": volume, "Size": 8}),
        ("CreateTags", {"Resources": [volume, instance], "Tags": [{"Key": "a", "Value": "b"}]}),
        ("RunInstances", {"MinCount": 1, "MaxCount": 1, "ImageId": "ami-1", "ClientToken": "t"}),
        ("CreateSnapshot", {"VolumeId": io2}),
        ("DescribeVolumeAttribute", {"VolumeId": volume, "Attribute": "autoEnableIO"}),
        ("DescribeInstanceTypes", {"InstanceTypes": ["m5.large", "c8gn.48xlarge", "m5.metal"]}),
        *((action, {}) for action in ACTIONS if action not in ("DescribeVolumeAttribute", "DescribeInstanceTypes")
          and action.startswith("Describe")),
        ("DetachVolume", {"VolumeId": volume}),
        ("DeleteVolume", {"VolumeId": io2}),
        ("DeleteSnapshot", {"SnapshotId": snapshot}),
        ("DeleteTags", {"Resources": [volume]}),
        ("RebootInstances", {"InstanceIds": [instance]}),
        ("StopInstances", {"InstanceIds": [instance]}),
        ("StartInstances", {"InstanceIds": [instance]}),
        ("TerminateInstances", {"InstanceIds": [instance]}),
    ]  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    for action, request in requests:
        if action == "StartInstances":
            await world.wait(20)
        found[action] = await world(action, **request)
    return found


async def test_every_answer_has_the_shape_of_ec2s() -> None:
    found = await answers()
    assert set(found) == set(ACTIONS)
    problems = [
        each
        for action, answer in found.items()
        if (shape := answer_shape(action))
        for each in wrong(shape, answer, action)
    ]
    assert problems == []


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_is_one_of_ec2s(action) -> None:
    assert action in MODEL.operation_names
