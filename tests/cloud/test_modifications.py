"""ModifyVolume, and the states of a modification."""

from __future__ import annotations

import pytest
from virtual_cloud import VirtualCloud

HOUR = 3600.0


async def shown(world: VirtualCloud, volume: str):
    answer = await world("DescribeVolumesModifications", VolumeIds=[volume])
    return answer["VolumesModifications"][0]


async def test_a_volume_has_its_new_size_when_it_is_optimizing() -> None:
    world = VirtualCloud(modifying_s=[5, 5], optimizing_s=[10, 10])
    volume = await world.volume()
    answer = (await world("ModifyVolume", VolumeId=volume, Size=4))["VolumeModification"]
    assert (answer["ModificationState"], answer["OriginalSize"], answer["TargetSize"]) == ("modifying", 1, 4)
    assert (await world.shown(volume))["Size"] == 1
    await world.wait(5)
    assert (await world.shown(volume))["Size"] == 4
    await world.wait(5)
    assert ((await shown(world, volume))["ModificationState"], (await shown(world, volume))["Progress"]) == (
        "optimizing",
        50,
    )
    await world.wait(5)
    assert ((await shown(world, volume))["ModificationState"], (await shown(world, volume))["Progress"]) == (
        "completed",
        100,
    )


async def test_what_is_not_asked_for_stays() -> None:
    world = VirtualCloud()
    volume = await world.volume(Iops=4000, Throughput=200, Size=20)
    await world("ModifyVolume", VolumeId=volume, Size=30)
    await world.wait(60)
    found = await world.shown(volume)
    assert (found["Size"], found["Iops"], found["Throughput"], found["VolumeType"]) == (30, 4000, 200, "gp3")


async def test_a_changed_type_has_its_own_defaults() -> None:
    world = VirtualCloud()
    volume = await world.volume(VolumeType="gp2", Size=20)
    await world("ModifyVolume", VolumeId=volume, VolumeType="gp3")
    await world.wait(60)
    found = await world.shown(volume)
    assert (found["VolumeType"], found["Iops"], found["Throughput"]) == ("gp3", 3000, 125)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, "InvalidParameterCombination"),
        ({"Size": 9}, "InvalidParameterValue"),
        ({"Iops": 90_000}, "InvalidParameterValue"),
        ({"VolumeType": "gp4"}, "UnknownVolumeType"),
        ({"VolumeType": "st1"}, "InvalidParameterValue"),
        ({"VolumeType": "gp2", "Iops": 4000}, "InvalidParameterCombination"),
    ],
)
async def test_an_impossible_modification_is_refused(change, code) -> None:
    world = VirtualCloud()
    assert await world.code("ModifyVolume", VolumeId=await world.volume(Size=10), **change) == code


async def test_one_modification_at_a_time() -> None:
    world = VirtualCloud(modifying_s=[5, 5], optimizing_s=[10, 10])
    volume = await world.volume()
    await world("ModifyVolume", VolumeId=volume, Size=2)
    for _ in range(2):
        assert await world.code("ModifyVolume", VolumeId=volume, Size=3) == "IncorrectModificationState"
        await world.wait(5)
    await world.wait(5)
    assert await world("ModifyVolume", VolumeId=volume, Size=3)


async def test_four_modifications_in_a_day() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    for size in range(2, 6):
        await world("ModifyVolume", VolumeId=volume, Size=size)
        await world.wait(HOUR)
    assert await world.code("ModifyVolume", VolumeId=volume, Size=9) == "VolumeModificationRateExceeded"
    await world.wait(20 * HOUR)
    assert await world("ModifyVolume", VolumeId=volume, Size=9)


async def test_a_volume_that_was_never_modified_has_no_modification() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    code = await world.code("DescribeVolumesModifications", VolumeIds=[volume])
    assert code == "InvalidVolumeModification.NotFound"
    assert (await world("DescribeVolumesModifications"))["VolumesModifications"] == []


async def test_a_deleted_volume_has_no_modification() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    await world("ModifyVolume", VolumeId=volume, Size=2)
    await world.wait(60)
    await world("DeleteVolume", VolumeId=volume)
    await world.wait(60)
    assert (await world("DescribeVolumesModifications"))["VolumesModifications"] == []
