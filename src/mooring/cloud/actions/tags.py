"""Tags: CreateTags, DeleteTags, DescribeTags, and those that come with a new resource.

Limits are those of the EC2 User Guide ("Tag your Amazon EC2 resources"): 50 tags, keys of 128 and values of
256 characters, no key that begins with "aws:".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Instance, Snapshot, Volume
from mooring.cloud.region import Action, Region, dry_run, paged
from mooring.cloud.requests.filters import Fields, Matcher
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import (
    Filter,
    Request,
    check_id,
    filters,
    invalid,
    missing,
    not_found,
    structures,
    text,
    texts,
)

MOST = 50
_TYPES = {"vol": "volume", "snap": "snapshot", "i": "instance"}


class TagRow(NamedTuple):
    """One tag of one resource, as DescribeTags shows it. `id` orders the rows."""

    id: str
    key: str
    value: str
    resource: str
    type: str


FIELDS: Fields[TagRow] = {
    "key": lambda row: (row.key,),
    "value": lambda row: (row.value,),
    "resource-id": lambda row: (row.resource,),
    "resource-type": lambda row: (row.type,),
}


def tags_for(request: Request, type: str, also: Sequence[str] = ()) -> dict[str, str]:
    """The tags that a request gives to its new resources of the type ("volume"). `also`: the other types that
    the request creates.

    Raises Ec2Error: InvalidParameterValue, TagLimitExceeded.
    """
    tags: dict[str, str] = {}
    for each in structures(request, "TagSpecifications"):
        given = text(each, "ResourceType")
        if not given:
            missing("ResourceType")
        if given != type and given not in also:
            raise Ec2Error(
                "InvalidParameterValue", f"'{given}' is not a valid taggable resource type for this action."
            )
        tags |= _read(each) if given == type else {}
    return check(tags)


def check(tags: dict[str, str]) -> dict[str, str]:
    """Returns the tags if a resource may have so many. Raises Ec2Error (TagLimitExceeded)."""
    if len(tags) > MOST:
        raise Ec2Error("TagLimitExceeded", f"More than {MOST} tags specified; a resource can have {MOST}.")
    return tags


async def create_tags(region: Region, request: Request) -> dict[str, Any]:
    """Adds tags to resources, or replaces their values. Changes all resources or none."""
    tags = _read(request)
    if not tags:
        missing("Tag")
    found = _resources(region, request)
    for record in found:
        check({**record.tags, **tags})
    dry_run(request)
    for record in found:
        _retag(region, record, {**record.tags, **tags})
    return {}


async def delete_tags(region: Region, request: Request) -> dict[str, Any]:
    """Removes tags: by key, or by key and value ("" is a value); all of them if none is named."""
    wanted = [(text(tag, "Key", required=True), tag.get("Value")) for tag in structures(request, "Tags")]
    found = _resources(region, request)
    dry_run(request)
    for record in found:
        gone = {key for key, value in wanted if value is None or record.tags.get(key) == value}
        left = {key: value for key, value in record.tags.items() if wanted and key not in gone}
        _retag(region, record, left)
    return {}


async def describe_tags(region: Region, request: Request) -> dict[str, Any]:
    """One row for each tag of each resource."""
    wanted = [Filter("key", each.values) if each.name == "tag-key" else each for each in filters(request)]
    by_tag = [each for each in wanted if each.name.startswith("tag:")]
    passes = Matcher([each for each in wanted if each not in by_tag], FIELDS)
    of_tag = [
        Matcher([Filter("key", (each.name[4:],)), Filter("value", each.values)], FIELDS) for each in by_tag
    ]
    page = page_of("DescribeTags", request, 5, 1000, with_ids=True)
    dry_run(request)
    rows = sorted(row for row in _rows(region) if passes(row) and all(each(row) for each in of_tag))
    shown, more = paged(rows, page)
    found = [
        {"Key": row.key, "Value": row.value, "ResourceId": row.resource, "ResourceType": row.type}
        for row in shown
    ]
    return {"Tags": found, **more}


def _rows(region: Region) -> Iterator[TagRow]:
    store = region.store
    tables: list[tuple[str, Mapping[str, Volume | Snapshot | Instance]]] = [
        ("volume", store.volumes.records),
        ("snapshot", store.snapshots.records),
        ("instance", store.instances.records),
    ]
    for type, records in tables:
        for record in records.values():
            for key, value in record.tags.items():
                yield TagRow(f"{record.id} {key}", key, value, record.id, type)


def _read(request: Request) -> dict[str, str]:
    tags: dict[str, str] = {}
    for tag in structures(request, "Tags"):
        key, value = text(tag, "Key", required=True), text(tag, "Value")
        if key.lower().startswith("aws:"):
            raise Ec2Error(
                "InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use"
            )
        if len(key) > 128:
            invalid("Tag.Key", key, "A tag key has at most 128 characters.")
        if len(value) > 256:
            invalid("Tag.Value", value, "A tag value has at most 256 characters.")
        if key in tags:
            raise Ec2Error("InvalidParameterValue", f"Duplicate tag key '{key}' specified.")
        tags[key] = value
    return tags


def _resources(region: Region, request: Request) -> list[Volume | Snapshot | Instance]:
    found: list[Volume | Snapshot | Instance] = []
    ids = texts(request, "Resources")
    if not ids:
        missing("ResourceIdSet")
    for id in ids:
        prefix = id.partition("-")[0]
        if prefix not in _TYPES:
            raise Ec2Error("InvalidID", f"The ID '{id}' is not valid")
        record = region.store.table(_TYPES[prefix]).get(check_id(id, prefix))
        if record is None:
            raise not_found(prefix, [id])
        found.append(record)
    return found


def _retag(region: Region, record: Volume | Snapshot | Instance, tags: dict[str, str]) -> None:
    region.store.put(msgspec.structs.replace(record, tags=tags))


ACTIONS: dict[str, Action] = {
    "CreateTags": create_tags,
    "DeleteTags": delete_tags,
    "DescribeTags": describe_tags,
}
