"""Instances: launched, stopped, terminated, described; and places."""

from __future__ import annotations

import pytest
from virtual_cloud import VirtualCloud


async def states(world: VirtualCloud, *instances: str) -> list[str]:
    answer = await world("DescribeInstances", InstanceIds=list(instances))
    found = {
        one["InstanceId"]: one["State"]["Name"]
        for each in answer["Reservations"]
        for one in each["Instances"]
    }
    return [found[instance] for instance in instances]


async def run(world: VirtualCloud, **request):
    return await world("RunInstances", **{"MinCount": 1, "MaxCount": 1, "ImageId": "ami-1", **request})


async def test_launching_makes_only_the_instances_that_are_missing() -> None:
    world = VirtualCloud()
    first = world.cloud.launch(2)
    assert world.cloud.launch(2) == first
    assert world.cloud.launch(3)[:2] == first
    assert await states(world, *world.cloud.launch(3)) == ["running"] * 3


async def test_launched_instances_are_spread_over_the_zones_that_are_named() -> None:
    world = VirtualCloud()
    world.cloud.launch(4, zone="us-east-1a,us-east-1c")
    assert [one.zone for one in world.cloud.instances()] == ["us-east-1a", "us-east-1c"] * 2


async def test_run_instances_gives_one_reservation_that_is_pending_at_first() -> None:
    world = VirtualCloud()
    tags = [{"ResourceType": kind, "Tags": [{"Key": "of", "Value": kind}]} for kind in ("instance", "volume")]
    answer = await run(world, MaxCount=2, MinCount=2, TagSpecifications=tags, InstanceType="m7i.large")
    one, two = (instance["InstanceId"] for instance in answer["Instances"])
    assert await states(world, one, two) == ["pending", "pending"]
    await world.wait(10)
    described = await world("DescribeInstances", Filters=[{"Name": "tag:of", "Values": ["instance"]}])
    [reservation] = described["Reservations"]
    assert [instance["State"]["Name"] for instance in reservation["Instances"]] == ["running", "running"]
    assert (
        len((await world("DescribeVolumes", Filters=[{"Name": "tag:of", "Values": ["volume"]}]))["Volumes"])
        == 2
    )


async def test_addresses_of_instances_and_interfaces_differ() -> None:
    world = VirtualCloud()
    await run(world, MinCount=5, MaxCount=5, NetworkInterfaces=[{}, {}])
    macs = [mac for one in world.cloud.instances() for mac in one.macs]
    assert len(set(macs)) == len(macs) == 10
    assert len({one.private_ip for one in world.cloud.instances()}) == 5


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"InstanceType": "m5.tiny"}, "InvalidParameterValue"),
        ({"ImageId": ""}, "MissingParameter"),
        ({"MinCount": 2}, "InvalidParameterValue"),
        ({"Placement": {"AvailabilityZone": "mars"}}, "InvalidZone.NotFound"),
        ({"NetworkInterfaces": [{}] * 4}, "AttachmentLimitExceeded"),
    ],
)
async def test_an_impossible_launch_is_refused(request_, code) -> None:
    request = {"MinCount": 1, "MaxCount": 1, "ImageId": "ami-1", **request_}
    assert await VirtualCloud().code("RunInstances", **request) == code


async def test_the_token_of_a_launch_in_a_named_zone_belongs_to_the_zone() -> None:
    world = VirtualCloud()
    one = await run(world, ClientToken="t", Placement={"AvailabilityZone": "us-east-1a"})
    again = await run(world, ClientToken="t", Placement={"AvailabilityZone": "us-east-1a"})
    other = await run(world, ClientToken="t", Placement={"AvailabilityZone": "us-east-1b"})
    ids = [answer["Instances"][0]["InstanceId"] for answer in (one, again, other)]
    assert ids[0] == ids[1] != ids[2]


async def test_termination_frees_volumes_and_deletes_the_root_volume() -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance)
    root, _ = (await world.devices_of(instance))["/dev/xvda"]
    await world("TerminateInstances", InstanceIds=[instance])
    assert await states(world, instance) == ["shutting-down"]
    await world.wait(30)
    assert await states(world, instance) == ["terminated"]
    assert await world.state(volume) == "available"
    assert await world.state(root) == ""
    await world.wait(3600)
    assert await world.code("DescribeInstances", InstanceIds=[instance]) == "InvalidInstanceID.NotFound"


async def test_a_kept_root_volume_outlives_its_instance() -> None:
    world = VirtualCloud()
    mapping = {"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": False, "VolumeSize": 20}}
    [made] = (await run(world, BlockDeviceMappings=[mapping]))["Instances"]
    root, _ = (await world.devices_of(made["InstanceId"]))["/dev/xvda"]
    await world("TerminateInstances", InstanceIds=[made["InstanceId"]])
    await world.wait(60)
    assert (await world.shown(root))["State"] == "available"
    assert (await world.shown(root))["Size"] == 20


async def test_instances_stop_and_start() -> None:
    world = VirtualCloud()
    [instance] = world.cloud.launch(1)
    seen: list[str] = []
    for action in ("StopInstances", "StartInstances"):
        await world(action, InstanceIds=[instance])
        seen += await states(world, instance)
        await world.wait(10)
        seen += await states(world, instance)
    assert seen == ["stopping", "stopped", "pending", "running"]


async def test_a_start_is_another_launch_and_a_stop_or_a_reboot_is_none() -> None:
    world = VirtualCloud()
    [instance] = world.cloud.launch(1)

    async def launched() -> object:
        answer = await world("DescribeInstances", InstanceIds=[instance])
        return answer["Reservations"][0]["Instances"][0]["LaunchTime"]

    first = await launched()
    await world.wait(10)
    await world("RebootInstances", InstanceIds=[instance])
    await world("StopInstances", InstanceIds=[instance])
    await world.wait(10)
    assert await launched() == first
    await world("StartInstances", InstanceIds=[instance])
    assert await launched() != first


async def test_a_terminated_instance_does_not_start() -> None:
    world = VirtualCloud()
    [instance] = world.cloud.launch(1)
    await world("TerminateInstances", InstanceIds=[instance])
    assert await world.code("StartInstances", InstanceIds=[instance]) == "IncorrectInstanceState"


async def test_the_root_volume_leaves_only_a_stopped_instance_and_can_come_back() -> None:
    world = VirtualCloud()
    [instance] = world.cloud.launch(1)
    root, _ = (await world.devices_of(instance))["/dev/xvda"]
    assert await world.code("DetachVolume", VolumeId=root) == "OperationNotPermitted"
    await world("StopInstances", InstanceIds=[instance])
    await world.wait(10)
    await world("DetachVolume", VolumeId=root)
    await world.wait(10)
    await world.attach(root, instance, "/dev/xvda")
    assert await world.attachments(root) == [(instance, "attached")]


async def test_an_instance_knows_the_devices_of_its_last_start() -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance, "/dev/xvdba")
    assert world.cloud.instances()[0].boot_devices == {"ami": "xvda", "root": "/dev/xvda"}
    await world("RebootInstances", InstanceIds=[instance])
    assert world.cloud.instances()[0].boot_devices["ebs1"] == "xvdba"


async def test_a_page_of_instances_and_their_ids_do_not_go_together() -> None:
    world = VirtualCloud()
    [instance] = world.cloud.launch(1)
    code = await world.code("DescribeInstances", InstanceIds=[instance], MaxResults=5)
    assert code == "InvalidParameterCombination"


async def test_unknown_instances_are_all_named_and_known_ones_are_not() -> None:
    world = VirtualCloud()
    [good] = world.cloud.launch(1)
    bad = ["i-0123456789abcdef0", "i-0123456789abcdef1"]
    error = await world.refused("DescribeInstances", InstanceIds=[good, *bad])
    assert error.code == "InvalidInstanceID.NotFound"
    assert all(id in error.message for id in bad)
    assert good not in error.message
    assert await world.code("DescribeInstances", InstanceIds=["node-1"]) == "InvalidInstanceID.Malformed"


async def test_only_running_instances_have_a_status_unless_all_are_asked_for() -> None:
    world = VirtualCloud()
    one, two = world.cloud.launch(2)
    await world("StopInstances", InstanceIds=[two])
    assert [each["InstanceId"] for each in (await world("DescribeInstanceStatus"))["InstanceStatuses"]] == [
        one
    ]
    assert len((await world("DescribeInstanceStatus", IncludeAllInstances=True))["InstanceStatuses"]) == 2


# --- places


async def test_zones_have_names_and_ids() -> None:
    answer = await VirtualCloud()("DescribeAvailabilityZones")
    assert [(zone["ZoneName"], zone["ZoneId"]) for zone in answer["AvailabilityZones"]] == [
        ("us-east-1a", "use1-az1"),
        ("us-east-1b", "use1-az2"),
        ("us-east-1c", "use1-az3"),
    ]
    gov = VirtualCloud(region="us-gov-west-1", zones=["us-gov-west-1a"])
    assert (await gov("DescribeAvailabilityZones"))["AvailabilityZones"][0]["ZoneId"] == "usgw1-az1"


async def test_a_dry_run_of_a_zone_list_says_that_it_would_work() -> None:
    assert await VirtualCloud().code("DescribeAvailabilityZones", DryRun=True) == "DryRunOperation"


async def test_instance_types_have_their_attachment_limits() -> None:
    answer = await VirtualCloud()(
        "DescribeInstanceTypes", InstanceTypes=["m5.large", "c8gn.48xlarge", "i7i.metal-48xl"]
    )
    limits = {
        one["InstanceType"]: (one["EbsInfo"]["MaximumEbsAttachments"], one["EbsInfo"]["AttachmentLimitType"])
        for one in answer["InstanceTypes"]
    }
    assert limits["m5.large"] == (27, "shared")
    assert limits["i7i.metal-48xl"] == (79, "dedicated")
    cards = {one["InstanceType"]: one["EbsInfo"].get("MaximumEbsCards", 1) for one in answer["InstanceTypes"]}
    assert cards == {"m5.large": 1, "c8gn.48xlarge": 2, "i7i.metal-48xl": 1}


async def test_an_unknown_instance_type_is_refused() -> None:
    assert (
        await VirtualCloud().code("DescribeInstanceTypes", InstanceTypes=["m5.tiny"]) == "InvalidInstanceType"
    )
