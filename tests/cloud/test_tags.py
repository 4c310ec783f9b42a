"""Tags."""

from __future__ import annotations

import pytest
from virtual_cloud import VirtualCloud


def tags(**pairs: str):
    return [{"Key": key, "Value": value} for key, value in pairs.items()]


async def tags_of(world: VirtualCloud, volume: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in (await world.shown(volume))["Tags"]}


async def test_tags_are_added_replaced_and_removed() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    await world("CreateTags", Resources=[volume], Tags=tags(a="1", b="2", c=""))
    await world("CreateTags", Resources=[volume], Tags=tags(a="3"))
    await world(
        "DeleteTags", Resources=[volume], Tags=[{"Key": "b", "Value": "other"}, {"Key": "c", "Value": ""}]
    )
    assert await tags_of(world, volume) == {"a": "3", "b": "2"}
    await world("DeleteTags", Resources=[volume], Tags=[{"Key": "b"}])
    assert await tags_of(world, volume) == {"a": "3"}
    await world("DeleteTags", Resources=[volume])
    assert await tags_of(world, volume) == {}


async def test_a_volume_is_found_by_its_new_tag_and_not_by_its_old_one() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    for value in ("old", "new"):
        await world("CreateTags", Resources=[volume], Tags=tags(a=value))
    for value, count in (("old", 0), ("new", 1)):
        answer = await world("DescribeVolumes", Filters=[{"Name": "tag:a", "Values": [value]}])
        assert len(answer["Volumes"]) == count


async def test_all_resources_are_tagged_or_none() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    request = {"Resources": [volume, "i-0123456789abcdef0"], "Tags": tags(a="1")}
    assert await world.code("CreateTags", **request) == "InvalidInstanceID.NotFound"
    assert await tags_of(world, volume) == {}


async def test_a_resource_has_fifty_tags_at_most() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    await world("CreateTags", Resources=[volume], Tags=tags(**{f"k{number}": "" for number in range(50)}))
    assert await world.code("CreateTags", Resources=[volume], Tags=tags(more="")) == "TagLimitExceeded"
    assert await world("CreateTags", Resources=[volume], Tags=tags(k0="again")) == {}


@pytest.mark.parametrize("tag", [("aws:a", "b"), ("k" * 129, ""), ("k", "v" * 257)])
async def test_an_impossible_tag_is_refused(tag) -> None:
    world = VirtualCloud()
    code = await world.code("CreateTags", Resources=[await world.volume()], Tags=tags(**dict([tag])))
    assert code == "InvalidParameterValue"


async def test_tags_are_described_one_by_one() -> None:
    world = VirtualCloud()
    volume = await world.volume()
    await world("CreateTags", Resources=[volume], Tags=tags(a="1", b="2"))
    answer = await world(
        "DescribeTags",
        Filters=[{"Name": "resource-id", "Values": [volume]}, {"Name": "key", "Values": ["b"]}],
    )
    assert answer["Tags"] == [{"Key": "b", "Value": "2", "ResourceId": volume, "ResourceType": "volume"}]
