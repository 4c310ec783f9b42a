"""The driver's questions to EC2: one loop for each kind of question (`batches`), or one call for each
question.

Guarantees: a malformed id is answered with None, without a call. Lists are read to their last page. `records`
reads the answers and raises MalformedAnswer. The batch sizes are those that EC2 accepts or answers quickly
(upstream's sizes); a filter has at most 200 values (FilterLimitExceeded).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from mooring.ebs.ec2 import records
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.batches import EVERY_S, Ask, Batches, isolated
from mooring.ebs.ec2.records import (
    NAME_TAG,
    SNAPSHOT_NAME_TAG,
    Fields,
    Instance,
    Modification,
    Snapshot,
    Volume,
    by_id,
)
from mooring.ebs.errors import Ec2Error, MalformedAnswer

_T = TypeVar("_T")

VOLUMES, INSTANCES, SNAPSHOTS, NAMES, TYPES = 500, 50, 1000, 200, 100
"""The largest batches."""
PAGE = 500
LONGEST_PAUSE_S = 15.0
_UNKNOWN = frozenset(
    {
        "InvalidVolume.NotFound",
        "InvalidVolumeID.Malformed",
        "InvalidVolumeModification.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidInstanceID.Malformed",
        "InvalidSnapshot.NotFound",
        "InvalidSnapshotID.Malformed",
        "InvalidInstanceType",
    }
)
"""Error codes about some of the ids in a call."""
_WILD = re.compile(r"[*?\\]")


class Describe:
    """EC2's descriptions. Belongs to one event loop. With `batching` off, each question is a call."""

    def __init__(self, api: Ec2Api, batching: bool = True) -> None:
        self._api = api
        self.batching = batching
        self._volumes = self._kind(self._ask_volumes, VOLUMES)
        self._volumes_named = self._kind(self._ask_volumes_named, NAMES)
        self._instances = self._kind(self._ask_instances, INSTANCES)
        self._snapshots = self._kind(self._ask_snapshots, SNAPSHOTS)
        self._snapshots_named = self._kind(self._ask_snapshots_named, NAMES)
        self._modifications = self._kind(self._ask_modifications, VOLUMES)
        self._initialized = self._kind(self._ask_initialized, VOLUMES)
        self._cards = self._kind(self._ask_cards, TYPES)

    async def volume(self, id: str) -> Volume | None:
        """The volume; None if there is no such volume, or EC2 does not show it yet."""
        return await self._volumes(id) if could_be("vol", id) else None

    async def volumes_named(self, name: str) -> tuple[Volume, ...]:
        """All volumes that were created for this name, the oldest first."""
        return await self._volumes_named(name) or ()

    async def instance(self, id: str) -> Instance | None:
        """The instance; None if there is no such instance, or it is terminated."""
        instance = await self._instances(id) if could_be("i", id) else None
        return None if instance is None or instance.state == "terminated" else instance

    async def snapshot(self, id: str) -> Snapshot | None:
        """The snapshot; None if there is no such snapshot, or EC2 does not show it yet."""
        return await self._snapshots(id) if could_be("snap", id) else None

    async def snapshots_named(self, name: str) -> tuple[Snapshot, ...]:
        """All of our snapshots that were created for this name, the oldest first."""
        return await self._snapshots_named(name) or ()

    async def modification(self, volume_id: str) -> Modification | None:
        """The volume's latest modification; None if it was never modified."""
        return await self._modifications(volume_id) if could_be("vol", volume_id) else None

    async def initialized(self, volume_id: str) -> bool:
        """Whether all of the volume's data is there (a snapshot's data may still arrive while the volume is
        in use)."""
        return bool(await self._initialized(volume_id))

    async def zones(self) -> tuple[str, ...]:
        """The names of the region's availability zones, sorted."""
        answer = await self._api.call("DescribeAvailabilityZones", {})
        found = _read(
            answer, "DescribeAvailabilityZones", "AvailabilityZones", lambda zone: zone.text("ZoneName")
        )
        return tuple(sorted(found))

    async def cards(self, instance_type: str) -> int:
        """How many EBS cards instances of the type have; 0 if EC2 does not tell."""
        return await self._cards(instance_type) or 0

    async def all_volumes(self, tags: Mapping[str, str]) -> dict[str, Volume]:
        """The volumes with all of these tags, by id."""
        request = {"Filters": [_filter(f"tag:{key}", [value]) for key, value in tags.items()]}
        return by_id(await self._volume_pages(request), _id, "DescribeVolumes")

    async def all_snapshots(self, tags: Mapping[str, str], volume_id: str = "") -> dict[str, Snapshot]:
        """Our own snapshots with all of these tags (and of that volume), by id."""
        filters = [_filter(f"tag:{key}", [value]) for key, value in tags.items()]
        filters += [_filter("volume-id", [volume_id])] if volume_id else []
        found = await self._snapshot_pages({"Filters": filters, "OwnerIds": ["self"]})
        return by_id(found, _id, "DescribeSnapshots")

    # --- the calls

    async def _ask_volumes(self, ids: Sequence[str]) -> Mapping[str, Volume]:
        answer = await self._api.call("DescribeVolumes", {"VolumeIds": list(ids)})
        return by_id(_read(answer, "DescribeVolumes", "Volumes", records.volume), _id, "DescribeVolumes")

    async def _ask_volumes_named(self, names: Sequence[str]) -> Mapping[str, tuple[Volume, ...]]:
        found = await self._volume_pages({"Filters": [_filter(f"tag:{NAME_TAG}", names)]})
        known = by_id(found, _id, "DescribeVolumes").values()
        return _by_name(sorted(known, key=lambda one: (str(one.created), one.id)), lambda one: one.name)

    async def _ask_instances(self, ids: Sequence[str]) -> Mapping[str, Instance]:
        action = "DescribeInstances"
        answer = await self._api.call(action, {"InstanceIds": list(ids)})
        found = _read(answer, action, "Reservations", lambda one: one.each("Instances", records.instance))
        return by_id([instance for reservation in found for instance in reservation], _id, action)

    async def _ask_snapshots(self, ids: Sequence[str]) -> Mapping[str, Snapshot]:
        answer = await self._api.call("DescribeSnapshots", {"SnapshotIds": list(ids)})
        return by_id(
            _read(answer, "DescribeSnapshots", "Snapshots", records.snapshot), _id, "DescribeSnapshots"
        )

    async def _ask_snapshots_named(self, names: Sequence[str]) -> Mapping[str, tuple[Snapshot, ...]]:
        found = await self._snapshot_pages(
            {"Filters": [_filter(f"tag:{SNAPSHOT_NAME_TAG}", names)], "OwnerIds": ["self"]}
        )
        known = by_id(found, _id, "DescribeSnapshots").values()
        return _by_name(sorted(known, key=lambda one: (one.started, one.id)), lambda one: one.name)

    async def _ask_modifications(self, ids: Sequence[str]) -> Mapping[str, Modification]:
        action = "DescribeVolumesModifications"
        answer = await self._api.call(action, {"VolumeIds": list(ids)})
        found = _read(answer, action, "VolumesModifications", records.modification)
        return {each.volume_id: each for each in found}

    async def _ask_initialized(self, ids: Sequence[str]) -> Mapping[str, bool]:
        action = "DescribeVolumeStatus"
        answer = await self._api.call(action, {"VolumeIds": list(ids)})
        return dict(_read(answer, action, "VolumeStatuses", _initialized))

    async def _ask_cards(self, types: Sequence[str]) -> Mapping[str, int]:
        action = "DescribeInstanceTypes"
        answer = await self._api.call(action, {"InstanceTypes": list(types)})
        return dict(_read(answer, action, "InstanceTypes", _type_cards))

    async def _volume_pages(self, request: Mapping[str, Any]) -> list[Volume]:
        action = "DescribeVolumes"
        async with aclosing(self._pages(action, request)) as pages:
            return [each async for page in pages for each in _read(page, action, "Volumes", records.volume)]

    async def _snapshot_pages(self, request: Mapping[str, Any]) -> list[Snapshot]:
        action = "DescribeSnapshots"
        async with aclosing(self._pages(action, request)) as pages:
            return [
                each async for page in pages for each in _read(page, action, "Snapshots", records.snapshot)
            ]

    async def _pages(self, action: str, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
        token = ""
        while True:
            answer = await self._api.call(
                action, {**request, "MaxResults": PAGE} | ({"NextToken": token} if token else {})
            )
            yield answer
            following = Fields(answer, action).text("NextToken", "")
            if not following:
                return
            if following == token:
                raise MalformedAnswer(f"{action}.NextToken leads from a page to the same one")
            token = following

    def _kind(self, ask: Ask[_T], largest: int) -> Callable[[str], Any]:
        if self.batching:
            return Batches(ask, largest=largest, concerns_names=_concerns_names).get

        async def one(name: str) -> _T | None:
            return (await isolated([name], ask, _concerns_names)).get(name)

        return one


def poll_pause_s(batching: bool, polls: int) -> float:
    """Seconds to wait before the same question is put again, after it was put `polls` times.

    In a batch another question costs nothing, so the first 20 are put without a pause; without batches each
    costs a call, so the pauses grow from the start. Later polls are rare either way.
    """
    first = 20 if batching else 0
    return 0.0 if polls < first else min(EVERY_S * 1.8 ** min(polls - first, 10), LONGEST_PAUSE_S)


def could_be(prefix: str, id: str) -> bool:
    """Whether the id has the form of EC2's ids; EC2 answers others with "malformed"."""
    return re.fullmatch(prefix + r"-[0-9a-f]{8}([0-9a-f]{9})?", id) is not None


def _concerns_names(error: Ec2Error) -> bool:
    return error.code in _UNKNOWN


def _read(answer: Mapping[str, Any], action: str, name: str, read: Callable[[Fields], _T]) -> tuple[_T, ...]:
    return Fields(answer, action).each(name, read)


def _filter(name: str, values: Sequence[str]) -> dict[str, Any]:
    """A filter for exactly these values. EC2 takes * and ? for wildcards unless they are escaped."""
    return {"Name": name, "Values": [_WILD.sub(lambda found: "\\" + found[0], value) for value in values]}


def _by_name(found: Sequence[_T], name_of: Callable[[_T], str]) -> dict[str, tuple[_T, ...]]:
    named: dict[str, tuple[_T, ...]] = {}
    for each in found:
        named[name_of(each)] = (*named.get(name_of(each), ()), each)
    return named


def _id(record: Volume | Instance | Snapshot) -> str:
    return record.id


def _type_cards(fields: Fields) -> tuple[str, int]:
    ebs = fields.part("EbsInfo")
    return fields.text("InstanceType"), ebs.count("MaximumEbsCards", 0) if ebs else 0


def _initialized(fields: Fields) -> tuple[str, bool]:
    status = fields.part("InitializationStatusDetails")
    if status is not None:
        return fields.text("VolumeId"), status.count("Progress", 100) >= 100
    whole = fields.part("VolumeStatus")
    details = (
        whole.each("Details", lambda one: (one.text("Name", ""), one.text("Status", "")), ()) if whole else ()
    )
    return fields.text("VolumeId"), dict(details).get("initialization-state", "completed") == "completed"
