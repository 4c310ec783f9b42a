"""Snapshots: taken, described, deleted."""

from __future__ import annotations

from played_devices import PlayedDevices
from virtual_cloud import VirtualCloud


async def shown(world: VirtualCloud, snapshot: str):
    return (await world("DescribeSnapshots", SnapshotIds=[snapshot]))["Snapshots"][0]


async def test_a_snapshot_is_pending_with_growing_progress_and_then_completed() -> None:
    world = VirtualCloud(snapshot_s=[10, 10])
    made = await world("CreateSnapshot", VolumeId=await world.volume(), Description="d")
    assert (made["State"], made["Progress"], made["VolumeSize"]) == ("pending", "0%", 1)
    await world.wait(5)
    assert (await shown(world, made["SnapshotId"]))["Progress"] == "50%"
    await world.wait(5)
    done = await shown(world, made["SnapshotId"])
    assert (done["State"], done["Progress"], done["Description"]) == ("completed", "100%", "d")


async def test_a_volume_is_made_of_a_complete_snapshot_only_and_not_smaller() -> None:
    world = VirtualCloud()
    made = await world("CreateSnapshot", VolumeId=await world.volume(Size=5))
    request = {"SnapshotId": made["SnapshotId"], "AvailabilityZone": "us-east-1b"}
    assert await world.code("CreateVolume", **request) == "IncorrectState"
    await world.wait(20)
    assert await world.code("CreateVolume", Size=4, **request) == "InvalidParameterValue"
    assert (await world("CreateVolume", **request))["Size"] == 5


async def test_snapshots_of_a_volume_keep_their_distance() -> None:
    world = VirtualCloud(snapshot_s=[100, 100], snapshots_per_volume=2)
    volume = await world.volume()
    await world("CreateSnapshot", VolumeId=volume)
    await world.wait(14)
    assert await world.code("CreateSnapshot", VolumeId=volume) == "SnapshotCreationPerVolumeRateExceeded"
    await world.wait(1)
    await world("CreateSnapshot", VolumeId=volume)
    await world.wait(15)
    assert await world.code("CreateSnapshot", VolumeId=volume) == "ConcurrentSnapshotLimitExceeded"


async def test_snapshots_of_others_are_shown_to_who_asks_for_no_owner() -> None:
    world = VirtualCloud(public_snapshots=7)
    await world("CreateSnapshot", VolumeId=await world.volume())
    assert len((await world("DescribeSnapshots"))["Snapshots"]) == 8
    assert len((await world("DescribeSnapshots", OwnerIds=["self"]))["Snapshots"]) == 1
    pages = [await world("DescribeSnapshots", MaxResults=5)]
    pages.append(await world("DescribeSnapshots", MaxResults=5, NextToken=pages[0]["NextToken"]))
    assert len({one["SnapshotId"] for page in pages for one in page["Snapshots"]}) == 8


async def test_a_deleted_snapshot_is_gone_at_once() -> None:
    world = VirtualCloud()
    snapshot = (await world("CreateSnapshot", VolumeId=await world.volume()))["SnapshotId"]
    await world("DeleteSnapshot", SnapshotId=snapshot)
    assert await world.code("DescribeSnapshots", SnapshotIds=[snapshot]) == "InvalidSnapshot.NotFound"
    assert await world.code("DeleteSnapshot", SnapshotId=snapshot) == "InvalidSnapshot.NotFound"
    assert await world.code("DeleteSnapshot", SnapshotId="none") == "InvalidSnapshotID.Malformed"


async def test_a_snapshots_data_stays_until_no_volume_is_being_made_of_it() -> None:
    devices = PlayedDevices()
    world = VirtualCloud(devices=devices, creating_s=[10, 10])
    snapshot = (await world("CreateSnapshot", VolumeId=await world.volume()))["SnapshotId"]
    await world.wait(20)
    made = await world("CreateVolume", SnapshotId=snapshot, AvailabilityZone="us-east-1a")
    await world("DeleteSnapshot", SnapshotId=snapshot)
    await world.wait(20)
    last = [call[:2] for call in devices.asked[-2:]]
    assert last == [("create", made["VolumeId"]), ("delete_snapshot", snapshot)]
