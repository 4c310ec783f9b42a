"""Volumes: made, copied, deleted, described."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from virtual_cloud import START, VirtualCloud

from mooring.cloud.requests.paging import page_of

ZONE = {"AvailabilityZone": "us-east-1a"}
TAGGED = [{"ResourceType": "volume", "Tags": [{"Key": "CSIVolumeName", "Value": "pvc-1"}]}]


async def test_a_volume_is_creating_before_it_is_available() -> None:
    world = VirtualCloud(creating_s=[2, 2])
    made = await world("CreateVolume", Size=1, **ZONE)
    assert made["State"] == "creating"
    assert made["CreateTime"] == datetime.fromtimestamp(START, UTC)
    await world.wait(1.9)
    assert await world.state(made["VolumeId"]) == "creating"
    await world.wait(0.1)
    assert await world.state(made["VolumeId"]) == "available"


async def test_a_deleted_volume_is_deleting_before_it_is_gone() -> None:
    world = VirtualCloud(deleting_s=[2, 2])
    volume = await world.volume()
    await world("DeleteVolume", VolumeId=volume)
    assert await world.state(volume) == "deleting"
    await world.wait(2)
    assert await world.code("DescribeVolumes", VolumeIds=[volume]) == "InvalidVolume.NotFound"


async def test_a_volume_in_use_is_not_deleted() -> None:
    world = VirtualCloud()
    [instance], volume = world.cloud.launch(1), await world.volume()
    await world.attach(volume, instance)
    assert await world.code("DeleteVolume", VolumeId=volume) == "VolumeInUse"


async def test_a_volume_that_is_being_created_is_not_deleted() -> None:
    world = VirtualCloud()
    made = await world("CreateVolume", Size=1, **ZONE)
    assert await world.code("DeleteVolume", VolumeId=made["VolumeId"]) == "IncorrectState"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"Size": 1}, "MissingParameter"),
        ({"AvailabilityZone": "us-east-1a"}, "MissingParameter"),
        ({"Size": 1, "AvailabilityZone": "mars-1a"}, "InvalidZone.NotFound"),
        ({"Size": 0, **ZONE}, "InvalidParameterValue"),
        ({"Size": 16385, "VolumeType": "gp2", **ZONE}, "InvalidParameterValue"),
        ({"Size": 65537, "VolumeType": "gp3", **ZONE}, "InvalidParameterValue"),
        ({"Size": 124, "VolumeType": "st1", **ZONE}, "InvalidParameterValue"),
        ({"Size": 1, "VolumeType": "gp4", **ZONE}, "UnknownVolumeType"),
        ({"Size": 4, "VolumeType": "io2", **ZONE}, "MissingParameter"),
        ({"Size": 4, "VolumeType": "gp2", "Iops": 100, **ZONE}, "InvalidParameterCombination"),
        ({"Size": 4, "VolumeType": "io1", "Iops": 201, **ZONE}, "InvalidParameterValue"),
        ({"Size": 4, "VolumeType": "gp3", "Throughput": 1000, **ZONE}, "InvalidParameterValue"),
        (
            {"Size": 4, "VolumeType": "io2", "Iops": 100, "Throughput": 125, **ZONE},
            "InvalidParameterCombination",
        ),
        ({"Size": 4, "VolumeType": "gp3", "MultiAttachEnabled": True, **ZONE}, "InvalidParameterCombination"),
        ({"Size": 4, "KmsKeyId": "key", **ZONE}, "InvalidParameterDependency"),
        ({"Size": 4, "SnapshotId": "snap-00000001", **ZONE}, "InvalidSnapshot.NotFound"),
        ({"Size": 4, "SnapshotId": "fake", **ZONE}, "InvalidSnapshotID.Malformed"),
        ({"Size": 4, "ClientToken": "x" * 65, **ZONE}, "InvalidParameterValue"),
        ({"Size": 4, "VolumeInitializationRate": 200, **ZONE}, "InvalidParameterCombination"),
        (
            {"Size": 4, "TagSpecifications": [{"ResourceType": "instance", "Tags": []}], **ZONE},
            "InvalidParameterValue",
        ),
    ],
)
async def test_an_impossible_volume_is_refused(request_, code) -> None:
    world = VirtualCloud()
    assert await world.code("CreateVolume", **request_) == code
    assert (await world("DescribeVolumes"))["Volumes"] == []


async def test_too_many_iops_are_refused_with_the_maximum_also_in_a_dry_run() -> None:
    world = VirtualCloud()
    error = await world.refused("CreateVolume", Size=4, VolumeType="io2", Iops=2**31 - 1, DryRun=True, **ZONE)
    assert "maximum is 256000" in error.message


async def test_a_dry_run_of_a_possible_request_says_so_and_makes_nothing() -> None:
    world = VirtualCloud()
    error = await world.refused("CreateVolume", Size=4, DryRun=True, **ZONE)
    assert (error.code, error.status) == ("DryRunOperation", 412)
    assert (await world("DescribeVolumes"))["Volumes"] == []


async def test_types_have_their_defaults() -> None:
    world = VirtualCloud()
    gp2 = await world.shown(await world.volume(VolumeType="gp2", Size=100))
    gp3 = await world.shown(await world.volume(VolumeType="gp3", Size=100))
    assert gp2["Iops"] == 300
    assert (gp3["Iops"], gp3["Throughput"]) == (3000, 125)


async def test_a_zone_can_be_named_by_its_id() -> None:
    world = VirtualCloud()
    made = await world("CreateVolume", Size=1, AvailabilityZoneId="use1-az2")
    assert made["AvailabilityZone"] == "us-east-1b"


async def test_the_accounts_limits_hold() -> None:
    world = VirtualCloud(volume_limit=1)
    await world.volume()
    assert await world.code("CreateVolume", Size=1, **ZONE) == "VolumeLimitExceeded"
    world.cloud.configure({"volume_limit": 0, "iops_limit": 3050})
    error = await world.refused("CreateVolume", Size=4, VolumeType="io1", Iops=100, **ZONE)
    assert error.code == "MaxIOPSLimitExceeded"
    assert "maximum is 50" in error.message


async def test_a_type_may_be_missing_in_a_zone() -> None:
    world = VirtualCloud(unavailable_types=["us-east-1b:io2"])
    io2 = {"Size": 4, "VolumeType": "io2", "Iops": 100}
    assert (
        await world.code("CreateVolume", AvailabilityZone="us-east-1b", **io2)
        == "VolumeTypeNotAvailableInZone"
    )
    assert await world("CreateVolume", AvailabilityZone="us-east-1a", **io2)


async def test_a_volume_with_a_bad_key_is_created_and_vanishes() -> None:
    world = VirtualCloud(bad_kms_keys=["bad"])
    made = await world(
        "CreateVolume", Size=1, Encrypted=True, KmsKeyId="arn:aws:kms:us-east-1:1:key/bad", **ZONE
    )
    assert made["State"] == "creating"
    await world.wait(10)
    assert await world.state(made["VolumeId"]) == ""


# --- client tokens


async def test_the_same_token_gives_the_first_volume_in_its_present_state() -> None:
    world = VirtualCloud()
    request = {"Size": 1, "ClientToken": "t", "TagSpecifications": TAGGED, **ZONE}
    first = await world("CreateVolume", **request)
    await world.wait(10)
    second = await world("CreateVolume", **request)
    assert (second["VolumeId"], second["State"]) == (first["VolumeId"], "available")
    assert len((await world("DescribeVolumes"))["Volumes"]) == 1


async def test_the_same_token_in_another_zone_makes_a_second_volume() -> None:
    world = VirtualCloud()
    first = await world("CreateVolume", Size=1, ClientToken="t", AvailabilityZone="us-east-1a")
    second = await world("CreateVolume", Size=1, ClientToken="t", AvailabilityZone="us-east-1b")
    assert first["VolumeId"] != second["VolumeId"]


async def test_the_same_token_with_other_parameters_is_refused() -> None:
    world = VirtualCloud()
    await world("CreateVolume", Size=1, ClientToken="t", **ZONE)
    error = await world.refused("CreateVolume", Size=2, ClientToken="t", **ZONE)
    assert error.code == "IdempotentParameterMismatch"
    assert "inconsistent" in error.message


async def test_the_token_of_a_deleted_volume_says_that_it_is_deleted() -> None:
    world = VirtualCloud()
    volume = await world.volume(ClientToken="t")
    await world("DeleteVolume", VolumeId=volume)
    for _ in range(2):
        error = await world.refused("CreateVolume", Size=1, VolumeType="gp3", ClientToken="t", **ZONE)
        assert error.code == "IdempotentParameterMismatch"
        assert "already deleted" in error.message
        await world.wait(10)


async def test_a_token_is_forgotten_after_its_time() -> None:
    world = VirtualCloud(token_life_s=100)
    first = await world("CreateVolume", Size=1, ClientToken="t", **ZONE)
    await world.wait(100)
    second = await world("CreateVolume", Size=2, ClientToken="t", **ZONE)
    assert first["VolumeId"] != second["VolumeId"]
    assert len(world.cloud.region.store.tokens.records) == 1


async def test_at_the_limit_also_a_known_token_is_refused() -> None:
    world = VirtualCloud(volume_limit=1)
    await world("CreateVolume", Size=1, ClientToken="t", **ZONE)
    assert await world.code("CreateVolume", Size=1, ClientToken="t", **ZONE) == "VolumeLimitExceeded"


async def test_the_order_of_tags_makes_no_other_request() -> None:
    world = VirtualCloud()
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    made = [
        await world(
            "CreateVolume",
            Size=1,
            ClientToken="t",
            TagSpecifications=[{"ResourceType": "volume", "Tags": order}],
            **ZONE,
        )
        for order in (tags, tags[::-1])
    ]
    assert made[0]["VolumeId"] == made[1]["VolumeId"]


# --- copies


async def test_a_copy_is_in_its_sources_zone_and_names_it() -> None:
    world = VirtualCloud()
    source = await world.volume(AvailabilityZone="us-east-1b", Size=3)
    [copy] = (await world("CopyVolumes", SourceVolumeId=source, VolumeType="gp3"))["Volumes"]
    assert (copy["AvailabilityZone"], copy["Size"], copy["SourceVolumeId"]) == ("us-east-1b", 3, source)


async def test_a_copy_is_not_smaller_than_its_source() -> None:
    world = VirtualCloud()
    source = await world.volume(Size=3)
    assert await world.code("CopyVolumes", SourceVolumeId=source, Size=2) == "InvalidParameterValue"


async def test_a_copy_of_an_encrypted_volume_is_encrypted() -> None:
    world = VirtualCloud()
    source = await world.volume(Encrypted=True)
    [copy] = (await world("CopyVolumes", SourceVolumeId=source))["Volumes"]
    assert copy["Encrypted"]
    assert copy["KmsKeyId"]


async def test_a_copy_has_a_client_token_too() -> None:
    world = VirtualCloud()
    source = await world.volume()
    first, second = [await world("CopyVolumes", SourceVolumeId=source, ClientToken="c") for _ in range(2)]
    assert first["Volumes"][0]["VolumeId"] == second["Volumes"][0]["VolumeId"]


# --- describing


async def test_one_unknown_id_fails_the_call_and_alone_is_named() -> None:
    world = VirtualCloud()
    good, bad = await world.volume(), "vol-0123456789abcdef0"
    error = await world.refused("DescribeVolumes", VolumeIds=[good, bad])
    assert error.code == "InvalidVolume.NotFound"
    assert bad in error.message
    assert good not in error.message


async def test_a_malformed_id_is_refused() -> None:
    assert (
        await VirtualCloud().code("DescribeVolumes", VolumeIds=["fake-vol-id"]) == "InvalidVolumeID.Malformed"
    )


async def test_volumes_are_found_by_tag_with_wildcards_and_by_other_filters() -> None:
    world = VirtualCloud()
    one = await world.volume(TagSpecifications=TAGGED)
    two = await world.volume(Size=7)

    async def found(name: str, *values: str) -> set[str]:
        answer = await world("DescribeVolumes", Filters=[{"Name": name, "Values": list(values)}])
        return {volume["VolumeId"] for volume in answer["Volumes"]}

    assert await found("tag:CSIVolumeName", "pvc-1") == {one}
    assert await found("tag:CSIVolumeName", "pvc-2") == set()
    assert await found("tag:CSIVolumeName", "pvc-?") == {one}
    assert await found("tag:CSIVolumeName", r"pvc-\?") == set()
    assert await found("tag-key", "CSI*") == {one}
    assert await found("size", "7") == {two}
    assert await found("status", "available", "in-use") == {one, two}


async def test_an_unknown_filter_and_too_many_values_are_refused() -> None:
    world = VirtualCloud()
    assert (
        await world.code("DescribeVolumes", Filters=[{"Name": "colour", "Values": ["red"]}])
        == "InvalidParameterValue"
    )
    many = [{"Name": "tag:a", "Values": [str(value) for value in range(201)]}]
    assert await world.code("DescribeVolumes", Filters=many) == "FilterLimitExceeded"


async def test_pages_give_every_volume_once_while_others_come_and_go() -> None:
    world = VirtualCloud()
    volumes = {await world.volume() for _ in range(12)}
    seen: list[str] = []
    token = None
    while True:
        page = await world("DescribeVolumes", MaxResults=5, NextToken=token)
        seen += [volume["VolumeId"] for volume in page["Volumes"]]
        token = page.get("NextToken")
        if token is None:
            break
        await world.volume()
    assert volumes <= set(seen)
    assert len(seen) == len(set(seen))


async def test_a_page_of_more_than_500_volumes_has_500_of_them() -> None:
    """As with EC2. Today's AWS command line sends 1000 with each describe-volumes."""
    world = VirtualCloud()
    for _ in range(3):
        await world.volume()
    assert len((await world("DescribeVolumes", MaxResults=1000))["Volumes"]) == 3
    request = {"MaxResults": 1000}
    assert page_of("DescribeVolumes", request, 5, 500, with_ids=True, caps=True).size == 500


@pytest.mark.parametrize("size", [0, 4])
async def test_a_page_size_out_of_range_is_refused(size) -> None:
    assert await VirtualCloud().code("DescribeVolumes", MaxResults=size) == "InvalidParameterValue"


async def test_a_token_that_was_not_given_is_refused() -> None:
    world = VirtualCloud()
    for _ in range(6):
        await world.volume()
    token = (await world("DescribeVolumes", MaxResults=5))["NextToken"]
    assert await world.code("DescribeVolumes", NextToken=token[:-4]) == "InvalidNextToken"
    assert await world.code("DescribeVolumeStatus", NextToken=token) == "InvalidNextToken"


async def test_a_volume_of_a_snapshot_shows_its_initialization() -> None:
    world = VirtualCloud(initializing_s=[100, 100])
    source = await world.volume()
    snapshot = (await world("CreateSnapshot", VolumeId=source))["SnapshotId"]
    await world.wait(60)
    volume = await world.volume(SnapshotId=snapshot)
    [status] = (await world("DescribeVolumeStatus", VolumeIds=[volume]))["VolumeStatuses"]
    assert 0 < status["InitializationStatusDetails"]["Progress"] < 100
    await world.wait(100)
    [status] = (await world("DescribeVolumeStatus", VolumeIds=[volume]))["VolumeStatuses"]
    assert status["InitializationStatusDetails"]["Progress"] == 100
    assert status["VolumeStatus"]["Status"] == "ok"
