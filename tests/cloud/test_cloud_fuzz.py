"""Whatever is asked, the cloud keeps its promises."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_cloud import KeptRecords, VirtualCloud

from mooring.cloud.actions.device_names import same
from mooring.cloud.cloud import ACTIONS
from mooring.cloud.errors import Ec2Error

DEVICES = ["/dev/sdf", "xvdf", "/dev/xvdf", "/dev/xvdba", "/dev/sdg", "/dev/xvda", "banana"]
FILTERS = [
    "tag:a",
    "tag-key",
    "status",
    "volume-id",
    "state",
    "attachment.instance-id",
    "nonsense",
    "instance-state-name",
]
NAMES = [
    "VolumeId", "VolumeIds", "InstanceId", "InstanceIds", "SnapshotId", "SnapshotIds", "Size", "Iops", "Throughput",
    "VolumeType", "AvailabilityZone", "Device", "Filters", "MaxResults", "NextToken", "ClientToken", "DryRun", "Force",
    "Resources", "Tags", "TagSpecifications", "SourceVolumeId", "Encrypted", "KmsKeyId", "MultiAttachEnabled",
    "MinCount", "MaxCount", "InstanceType", "ImageId", "Placement", "EbsCardIndex", "OwnerIds", "InstanceTypes",
    "ZoneNames", "BlockDeviceMappings", "NetworkInterfaces", "Attribute", "VolumeInitializationRate", "RegionNames",
]  # fmt: skip

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=8) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "Name", "Values"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    calls=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.dictionaries(st.sampled_from(NAMES), ANYTHING)), max_size=12
    )
)
@settings(max_examples=150, deadline=None)
def test_nonsense_is_refused_with_a_code_of_ec2(calls: list[tuple[str, dict[str, Any]]]) -> None:
    async def play() -> None:
        world = VirtualCloud()
        world.cloud.launch(1)
        for action, request in calls:
            try:
                await world.cloud.call(action, request)
            except Ec2Error as error:
                assert error.code and error.message
            await world.wait(1)

    asyncio.run(play())


class Player:
    """Makes likely requests of what is there."""

    def __init__(self, world: VirtualCloud, rng: random.Random) -> None:
        self.world = world
        self.rng = rng

    def id(self, kind: str) -> str:
        known = list(self.world.cloud.region.store.table(kind).records)
        prefix = {"volume": "vol", "snapshot": "snap", "instance": "i"}[kind]
        return self.rng.choice([*known, *known, f"{prefix}-{self.rng.getrandbits(32):08x}", "bad"])

    def tag(self) -> dict[str, str]:
        return {"Key": "a", "Value": str(self.rng.randrange(3))}

    def request(self, action: str) -> dict[str, Any]:
        rng, id = self.rng, self.id
        requests: dict[str, Any] = {
            "CreateVolume": lambda: {
                "Size": rng.choice([0, 1, 4, 10, 130]),
                "VolumeType": rng.choice(["gp3", "gp2", "io2", "st1", "odd"]),
                "AvailabilityZone": rng.choice(["us-east-1a", "us-east-1a", "us-east-1b", "nowhere"]),
                "ClientToken": f"t{rng.randrange(6)}",
                **({"Iops": 100, "MultiAttachEnabled": True} if rng.random() < 0.4 else {}),
                **({"SnapshotId": id("snapshot")} if rng.random() < 0.2 else {}),
                "TagSpecifications": [{"ResourceType": "volume", "Tags": [self.tag()]}],
            },
            "CopyVolumes": lambda: {"SourceVolumeId": id("volume"), "ClientToken": f"c{rng.randrange(4)}"},
            "DeleteVolume": lambda: {"VolumeId": id("volume")},
            "AttachVolume": lambda: {
                "VolumeId": id("volume"), "InstanceId": id("instance"), "Device": rng.choice(DEVICES),
            },
            "DetachVolume": lambda: {"VolumeId": id("volume"), "Force": rng.random() < 0.2},
            "ModifyVolume": lambda: {"VolumeId": id("volume"), "Size": rng.randrange(1, 20)},
            "CreateSnapshot": lambda: {"VolumeId": id("volume")},
            "DeleteSnapshot": lambda: {"SnapshotId": id("snapshot")},
            "CreateTags": lambda: {
                "Resources": [id(rng.choice(["volume", "instance", "snapshot"]))],
                "Tags": [self.tag()],
            },
            "DeleteTags": lambda: {"Resources": [id("volume")], "Tags": [{"Key": "a"}]},
            "RunInstances": lambda: {"MinCount": 1, "MaxCount": 1, "ImageId": "ami-1", "InstanceType": "m5.large"},
            **dict.fromkeys(
                ("TerminateInstances", "StopInstances", "StartInstances", "RebootInstances"),
                lambda: {"InstanceIds": [id("instance")]},
            ),
            "DescribeVolumes": lambda: {
                "Filters": [{"Name": rng.choice(FILTERS), "Values": [rng.choice(["1", "*", id("volume")])]}],
                "MaxResults": rng.choice([5, 500]),
            },
        }  # fmt: skip
        return requests.get(action, dict)()

    async def step(self) -> None:
        action = self.rng.choice(ACTIONS)
        if action == "TerminateInstances" and self.rng.random() < 0.7:
            return
        try:
            await self.world.cloud.call(action, self.request(action))
        except Ec2Error as error:
            assert error.code and error.message


async def check(world: VirtualCloud) -> None:
    """What is true at any time."""
    taken: set[tuple[str, str]] = set()
    for volume in (await world("DescribeVolumes"))["Volumes"]:
        attachments = volume["Attachments"]
        assert volume["MultiAttachEnabled"] or len(attachments) <= 1
        assert bool(attachments) == (volume["State"] == "in-use")
        for one in attachments:
            place = (one["InstanceId"], same(one["Device"]))
            assert place not in taken
            taken.add(place)
    seen = {
        (instance["InstanceId"], same(device["DeviceName"]))
        for reservation in (await world("DescribeInstances"))["Reservations"]
        for instance in reservation["Instances"]
        for device in instance["BlockDeviceMappings"]
    }
    assert seen == taken


async def everything(world: VirtualCloud) -> list[Any]:
    described = ("Volumes", "Instances", "Snapshots", "VolumesModifications", "Tags", "VolumeStatus")
    return [await world(f"Describe{kind}") for kind in described]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_likely_requests_leave_a_sound_cloud_also_after_a_restart(seed: int) -> None:
    async def play() -> None:
        rng, journal = random.Random(seed), KeptRecords()
        faults = {"stuck_detach_share": 0.2, "stuck_s": 5.0, "stuck_attach_share": 0.1}
        world = VirtualCloud(seed, journal=journal, **faults)
        world.cloud.launch(3, zone="us-east-1a,us-east-1b")
        player = Player(world, rng)
        for step in range(120):
            await player.step()
            await check(world)
            await world.wait(rng.choice([0, 0.5, 2, 20]))
            if step % 40 == 39:
                again = VirtualCloud(seed, journal=journal, now=world.now, **faults)
                assert await everything(again) == await everything(world)
                assert again.cloud.region.store.next_due() == world.cloud.region.store.next_due()
                world = player.world = again

    asyncio.run(play())


def test_the_same_seed_and_the_same_calls_give_the_same_answers() -> None:
    async def play() -> list[Any]:
        world = VirtualCloud(7)
        world.cloud.launch(2)
        player = Player(world, random.Random(3))
        for _ in range(200):
            await player.step()
            await world.wait(1)
        return await everything(world)

    assert asyncio.run(play()) == asyncio.run(play())
