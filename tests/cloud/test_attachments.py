"""Attachments: made, refused, stuck, ended."""

from __future__ import annotations

import pytest
from virtual_cloud import VirtualCloud

from mooring.cloud.actions.device_names import same

A, B = "us-east-1a", "us-east-1b"


async def test_an_attachment_is_attaching_before_it_is_attached() -> None:
    world = VirtualCloud(attaching_s=[2, 2])
    [instance], volume = world.cloud.launch(1), await world.volume()
    answer = await world("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/xvdba")
    assert answer["State"] == "attaching"
    assert await world.state(volume) == "in-use"
    assert (await world.devices_of(instance))["/dev/xvdba"] == (volume, "attaching")
    await world.wait(2)
    assert await world.attachments(volume) == [(instance, "attached")]
    assert (await world.devices_of(instance))["/dev/xvdba"] == (volume, "attached")


async def test_a_detachment_is_detaching_before_the_volume_is_available() -> None:
    world = VirtualCloud(detaching_s=[2, 2])
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance)
    assert (await world("DetachVolume", VolumeId=volume))["State"] == "detaching"
    await world.wait(1.9)
    assert await world.attachments(volume) == [(instance, "detaching")]
    await world.wait(0.1)
    assert await world.attachments(volume) == []
    assert await world.state(volume) == "available"
    assert "/dev/xvdba" not in await world.devices_of(instance)


async def test_an_attached_volume_is_not_attached_again_nor_elsewhere() -> None:
    world = VirtualCloud()
    here, there = world.cloud.launch(2)
    volume = await world.volume()
    await world.attach(volume, here)
    for instance in (here, there):
        code = await world.code("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/xvdbb")
        assert code == "VolumeInUse"


async def test_a_volume_that_is_being_created_is_not_attached() -> None:
    world = VirtualCloud()
    [instance] = world.cloud.launch(1)
    made = await world("CreateVolume", Size=1, AvailabilityZone=A)
    code = await world.code("AttachVolume", VolumeId=made["VolumeId"], InstanceId=instance, Device="/dev/sdf")
    assert code == "IncorrectState"


async def test_a_volume_of_another_zone_is_not_attached() -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1, zone=B), await world.volume()
    code = await world.code("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    assert code == "InvalidVolume.ZoneMismatch"


async def test_a_terminated_instance_takes_no_volume_and_a_stopped_one_does() -> None:
    world = VirtualCloud()
    ended, stopped = world.cloud.launch(2)
    volume = await world.volume()
    await world("TerminateInstances", InstanceIds=[ended])
    await world("StopInstances", InstanceIds=[stopped])
    await world.wait(20)
    assert (
        await world.code("AttachVolume", VolumeId=volume, InstanceId=ended, Device="/dev/sdf")
        == "IncorrectState"
    )
    await world.attach(volume, stopped)
    assert await world.attachments(volume) == [(stopped, "attached")]


@pytest.mark.parametrize("device", ["banana", "/dev/xvdea", "/dev/sdaa", "/dev/xvdz1", "", "/dev/nvme1n1"])
async def test_what_is_no_device_name_is_refused(device) -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1), await world.volume()
    code = await world.code("AttachVolume", VolumeId=volume, InstanceId=instance, Device=device)
    assert code in ("InvalidParameterValue", "MissingParameter")


@pytest.mark.parametrize("device", ["/dev/sdf", "/dev/xvdf", "xvdf", "sdf"])
async def test_a_device_name_has_one_volume_however_it_is_spelt(device) -> None:
    world = VirtualCloud()
    [instance], one, two = world.cloud.launch(1), await world.volume(), await world.volume()
    await world.attach(one, instance, "/dev/xvdf")
    error = await world.refused("AttachVolume", VolumeId=two, InstanceId=instance, Device=device)
    assert error.code == "InvalidParameterValue"
    assert "already in use" in error.message


@pytest.mark.parametrize("device", ["/dev/xvda", "/dev/sda1", "/dev/sda", "/dev/sdb"])
async def test_the_root_device_and_hidden_names_are_taken(device) -> None:
    world = VirtualCloud(hidden_devices=["/dev/xvdb"])
    [instance], volume = world.cloud.launch(1), await world.volume()
    error = await world.refused("AttachVolume", VolumeId=volume, InstanceId=instance, Device=device)
    assert "already in use" in error.message
    assert "/dev/xvdb" not in await world.devices_of(instance)


def test_names_of_one_and_of_two_letters_differ() -> None:
    assert same("/dev/xvdba") != same("/dev/xvdb") != same("/dev/xvda")


async def test_an_instance_takes_as_many_volumes_as_its_type_has_slots_beside_its_interfaces() -> None:
    world = VirtualCloud()
    launched = await world(
        "RunInstances",
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        ImageId="ami-1",
        NetworkInterfaces=[{}, {}, {}],
    )
    instance = launched["Instances"][0]["InstanceId"]
    await world.wait(10)
    for number in range(27 - 2 - 1):
        await world(
            "AttachVolume",
            VolumeId=await world.volume(),
            InstanceId=instance,
            Device=f"/dev/xvdb{chr(97 + number)}",
        )
    beyond = {"VolumeId": await world.volume(), "InstanceId": instance, "Device": "/dev/xvdcz"}
    assert await world.code("AttachVolume", **beyond) == "AttachmentLimitExceeded"
    world.cloud.configure({"over_limit": "attaching"})
    await world("AttachVolume", **beyond)
    await world.wait(1000)
    assert await world.attachments(beyond["VolumeId"]) == [(instance, "attaching")]


async def test_interfaces_take_no_slots_of_a_dedicated_type() -> None:
    world = VirtualCloud()
    launched = await world(
        "RunInstances",
        InstanceType="m7i.large",
        MinCount=1,
        MaxCount=1,
        ImageId="ami-1",
        NetworkInterfaces=[{}, {}],
    )
    instance = launched["Instances"][0]["InstanceId"]
    await world.wait(10)
    for number in range(31):
        name = f"/dev/xvd{'bc'[number // 26]}{chr(97 + number % 26)}"
        await world("AttachVolume", VolumeId=await world.volume(), InstanceId=instance, Device=name)
    code = await world.code(
        "AttachVolume", VolumeId=await world.volume(), InstanceId=instance, Device="/dev/xvdcz"
    )
    assert code == "AttachmentLimitExceeded"


async def test_only_a_type_with_several_cards_takes_a_card_index() -> None:
    world = VirtualCloud()
    [one] = world.cloud.launch(1)
    two = world.cloud.launch(2, instance_type="c8gn.48xlarge")[1]
    volume = await world.volume()
    request = {"VolumeId": volume, "Device": "/dev/sdf", "EbsCardIndex": 1}
    assert await world.code("AttachVolume", InstanceId=one, **request) == "InvalidParameterValue"
    assert (await world("AttachVolume", InstanceId=two, **request))["EbsCardIndex"] == 1


async def test_a_multi_attach_volume_is_attached_to_several_instances() -> None:
    world = VirtualCloud()
    one, two = world.cloud.launch(2)
    volume = await world.volume(VolumeType="io2", Size=4, Iops=100, MultiAttachEnabled=True)
    await world.attach(volume, one, "/dev/sdf")
    await world.attach(volume, two, "/dev/sdg")
    assert await world.attachments(volume) == [(one, "attached"), (two, "attached")]
    assert await world.code("DetachVolume", VolumeId=volume) == "MissingParameter"
    await world("DetachVolume", VolumeId=volume, InstanceId=one)
    await world.wait(10)
    assert await world.attachments(volume) == [(two, "attached")]
    assert await world.state(volume) == "in-use"


async def test_a_multi_attach_volume_needs_nitro() -> None:
    world = VirtualCloud()
    [instance] = world.cloud.launch(1, instance_type="m4.large")
    volume = await world.volume(VolumeType="io2", Size=4, Iops=100, MultiAttachEnabled=True)
    code = await world.code("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    assert code == "UnsupportedOperation"


async def test_what_is_not_attached_is_not_detached() -> None:
    world = VirtualCloud()
    here, there = world.cloud.launch(2)
    volume = await world.volume()
    assert await world.code("DetachVolume", VolumeId=volume) == "IncorrectState"
    await world.attach(volume, here)
    assert await world.code("DetachVolume", VolumeId=volume, InstanceId=there) == "InvalidAttachment.NotFound"
    assert (
        await world.code("DetachVolume", VolumeId=volume, Device="/dev/sdz") == "InvalidAttachment.NotFound"
    )
    await world("DetachVolume", VolumeId=volume)
    assert await world.code("DetachVolume", VolumeId=volume) == "IncorrectState"


async def test_an_attaching_volume_can_be_detached() -> None:
    world = VirtualCloud(attaching_s=[5, 5], detaching_s=[1, 1])
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    await world("DetachVolume", VolumeId=volume)
    await world.wait(10)
    assert await world.state(volume) == "available"


async def test_a_dry_run_attaches_nothing_but_finds_what_is_wrong() -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1), await world.volume()
    request = {"VolumeId": volume, "InstanceId": instance, "DryRun": True}
    assert await world.code("AttachVolume", Device="/dev/sdf", **request) == "DryRunOperation"
    assert await world.code("AttachVolume", Device="/dev/xvda", **request) == "InvalidParameterValue"
    assert await world.state(volume) == "available"


# --- stuck


async def test_an_attachment_can_be_stuck_for_a_while() -> None:
    world = VirtualCloud(attaching_s=[1, 1], stuck_attach_share=1.0, stuck_s=60)
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world("AttachVolume", VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    await world.wait(60)
    assert await world.attachments(volume) == [(instance, "attaching")]
    await world.wait(1)
    assert await world.attachments(volume) == [(instance, "attached")]


async def test_a_burned_name_attaches_for_ever_and_another_one_does_not() -> None:
    world = VirtualCloud(burned_devices=["/dev/sdf"])
    [instance], one, two = world.cloud.launch(1), await world.volume(), await world.volume()
    await world.attach(one, instance, "/dev/xvdf")
    await world.attach(two, instance, "/dev/xvdg")
    await world.wait(10_000)
    assert await world.attachments(one) == [(instance, "attaching")]
    assert await world.attachments(two) == [(instance, "attached")]


async def test_a_stuck_detachment_is_busy_and_its_device_is_detaching_until_force_ends_it() -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1), await world.volume()
    world.cloud.configure({"stuck_detach": [volume]})
    await world.attach(volume, instance)
    await world("DetachVolume", VolumeId=volume)
    await world.wait(1000)
    assert await world.attachments(volume) == [(instance, "busy")]
    assert (await world.devices_of(instance))["/dev/xvdba"] == (volume, "detaching")
    assert await world.code("DetachVolume", VolumeId=volume) == "IncorrectState"
    await world("DetachVolume", VolumeId=volume, Force=True)
    await world.wait(10)
    assert await world.state(volume) == "available"


async def test_a_name_that_force_has_freed_is_useless_until_the_instance_starts_anew() -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1), await world.volume()
    world.cloud.configure({"stuck_detach": [volume]})
    await world.attach(volume, instance)
    await world("DetachVolume", VolumeId=volume)
    await world.wait(10)
    await world("DetachVolume", VolumeId=volume, Force=True)
    await world.wait(10)
    await world.attach(volume, instance)
    assert await world.attachments(volume) == [(instance, "attaching")]
    await world("DetachVolume", VolumeId=volume, Force=True)
    await world.wait(10)
    await world("RebootInstances", InstanceIds=[instance])
    await world.attach(volume, instance)
    assert await world.attachments(volume) == [(instance, "attached")]


# --- how old answers are


async def test_an_instance_may_still_show_a_volume_that_has_left_it() -> None:
    world = VirtualCloud(seed=4)
    [instance], volume = world.cloud.launch(1), await world.volume()
    world.cloud.configure({"instances_lag_s": 100})
    await world.attach(volume, instance)
    await world.wait(200)
    assert "/dev/xvdba" in await world.devices_of(instance)
    await world("DetachVolume", VolumeId=volume)
    await world.wait(10)
    assert await world.attachments(volume) == []
    shown = ["/dev/xvdba" in await world.devices_of(instance) for _ in range(50)]
    assert True in shown
    await world.wait(101)
    assert "/dev/xvdba" not in await world.devices_of(instance)


async def test_a_volume_that_was_just_created_may_not_be_found() -> None:
    world = VirtualCloud(volumes_lag_s=100)
    volume = (await world("CreateVolume", Size=1, AvailabilityZone=A))["VolumeId"]
    await world.wait(20)
    states = {await world.state(volume) for _ in range(50)}
    assert {"", "available"} <= states
    await world.wait(100)
    assert {await world.state(volume) for _ in range(50)} == {"available"}
    assert await world("CreateTags", Resources=[volume], Tags=[{"Key": "a", "Value": "b"}]) == {}


async def test_the_past_is_forgotten() -> None:
    world = VirtualCloud(volumes_lag_s=5)
    for _ in range(10):
        volume = await world.volume()
        await world("DeleteVolume", VolumeId=volume)
        await world.wait(10)
    assert len(list(world.cloud.region.store.volumes.ids(world.now))) <= 1
