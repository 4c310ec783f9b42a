"""Snapshots: copies of a volume's data at one moment, completed a while later."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from mooring.cloud.actions import backing
from mooring.cloud.actions.tags import tags_for
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Discard, Snapshot, Volume
from mooring.cloud.region import Action, Region, dry_run, moment, paged, select, stamp, tag_list
from mooring.cloud.requests.filters import Fields, Matcher, yes_or_no
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import Request, filters, ids, one_id, text, texts

STRANGER = "099720109477"
"""Owner of the snapshots that are not this account's."""


async def create_snapshot(region: Region, request: Request) -> dict[str, Any]:
    """Copies the volume's present data. The answer comes when the copy exists; the snapshot is "pending" for
    a while longer."""
    volume = region.volume(one_id(request, "VolumeId", "vol"))
    description, tags = text(request, "Description"), tags_for(request, "snapshot")
    if volume.state not in ("available", "in-use"):
        raise Ec2Error("IncorrectState", f"Volume '{volume.id}' is in the '{volume.state}' state.")
    _check_rate(region, volume)
    dry_run(request)
    started, due = region.clock(), region.delay(region.settings.snapshot_s)
    id = region.new_id("snap")
    because = await _keep(region, volume, id, started)
    snapshot = Snapshot(
        id=id,
        volume=volume.id,
        size=volume.size,
        started=started,
        state="error" if because else "pending",
        message=because,
        description=description,
        encrypted=volume.encrypted,
        kms_key=volume.kms_key,
        tags=tags,
        ends=due,
        due=0.0 if because else due,
    )
    region.store.put(snapshot)
    return snapshot_answer(region, snapshot, region.clock())


async def delete_snapshot(region: Region, request: Request) -> dict[str, Any]:
    """Removes the snapshot at once, and its data when no volume is being created from it any more."""
    snapshot = region.snapshot(one_id(request, "SnapshotId", "snap"))
    dry_run(request)
    region.store.remove(snapshot)
    region.store.put(Discard(id=snapshot.id, due=region.clock()))
    return {}


async def describe_snapshots(region: Region, request: Request) -> dict[str, Any]:
    """Snapshots by id, owner or filter, page by page."""
    wanted, named, owners = filters(request), ids(request, "SnapshotIds", "snap"), texts(request, "OwnerIds")
    page = page_of("DescribeSnapshots", request, 5, 1000, with_ids=True)
    time = region.as_of(region.settings.snapshots_lag_s)
    now = region.clock() if time is None else time
    fields = _fields(region, now)
    foreign = {each.id: each for each in _foreign(region) if not named or each.id in named}
    own = [id for id in named if id not in foreign]
    found: list[Snapshot] = []
    if own or not named:
        found = select(region.store.snapshots, wanted, fields, prefix="snap", ids=own, time=time)
    if owners and not {"self", region.settings.account} & set(owners):
        found = []
    if not owners or {STRANGER, "amazon"} & set(owners):
        found = sorted([*found, *filter(Matcher(wanted, fields), foreign.values())], key=lambda one: one.id)
    dry_run(request)
    shown, more = paged(found, page)
    return {"Snapshots": [snapshot_answer(region, snapshot, now) for snapshot in shown], **more}


def snapshot_answer(region: Region, snapshot: Snapshot, now: float) -> dict[str, Any]:
    """A snapshot as answers show it at `now`."""
    answer: dict[str, Any] = {
        "SnapshotId": snapshot.id,
        "VolumeId": snapshot.volume,
        "VolumeSize": snapshot.size,
        "State": snapshot.state,
        "Progress": _progress(snapshot, now),
        "StartTime": moment(snapshot.started),
        "OwnerId": _owner(region, snapshot),
        "Description": snapshot.description,
        "Encrypted": snapshot.encrypted,
        "StorageTier": "standard",
        "Tags": tag_list(snapshot.tags),
    }
    if snapshot.state == "completed":
        answer["CompletionTime"] = moment(snapshot.ends)
    if snapshot.kms_key:
        answer["KmsKeyId"] = snapshot.kms_key
    if snapshot.message:
        answer["StateMessage"] = snapshot.message
    return answer


def _fields(region: Region, now: float) -> Fields[Snapshot]:
    return {
        "description": lambda one: (one.description,),
        "encrypted": lambda one: yes_or_no(one.encrypted),
        "owner-id": lambda one: (_owner(region, one),),
        "owner-alias": lambda one: ("amazon",) if _owner(region, one) == STRANGER else (),
        "progress": lambda one: (_progress(one, now),),
        "snapshot-id": lambda one: (one.id,),
        "start-time": lambda one: (stamp(one.started),),
        "status": lambda one: (one.state,),
        "storage-tier": lambda _: ("standard",),
        "volume-id": lambda one: (one.volume,),
        "volume-size": lambda one: (str(one.size),),
    }


def _owner(region: Region, snapshot: Snapshot) -> str:
    return region.settings.account if snapshot.volume != "vol-ffffffff" else STRANGER


def _foreign(region: Region) -> Iterator[Snapshot]:
    """Public snapshots of other accounts; EC2 shows the volume vol-ffffffff for all of them."""
    for index in range(region.settings.public_snapshots):
        digits = hashlib.sha256(str(index).encode()).hexdigest()[:17]
        yield Snapshot(
            id=f"snap-{digits}",
            volume="vol-ffffffff",
            size=8,
            started=1_600_000_000.0 + index,
            ends=1_600_000_000.0 + index,
            state="completed",
            description="public",
        )


def _progress(snapshot: Snapshot, now: float) -> str:
    if snapshot.state != "pending":
        return "100%" if snapshot.state == "completed" else "0%"
    whole = snapshot.ends - snapshot.started
    return f"{max(0, min(99, int(100 * (now - snapshot.started) / whole))) if whole > 0 else 99}%"


def _check_rate(region: Region, volume: Volume) -> None:
    settings, now = region.settings, region.clock()
    snapshots = region.store.snapshots.records
    if settings.snapshot_limit and len(snapshots) >= settings.snapshot_limit:
        raise Ec2Error(
            "SnapshotLimitExceeded",
            f"The maximum number of snapshots, {settings.snapshot_limit}, is reached.",
        )
    of_volume = [each for each in snapshots.values() if each.volume == volume.id]
    under_way = region.snapshotting.get(volume.id, [])
    if any(
        now - began < settings.snapshot_interval_s
        for began in (*(each.started for each in of_volume), *under_way)
    ):
        raise Ec2Error(
            "SnapshotCreationPerVolumeRateExceeded",
            f"The maximum per volume CreateSnapshot request rate has been exceeded for '{volume.id}'. "
            f"Wait at least {settings.snapshot_interval_s:g} seconds between its snapshots.",
        )
    if sum(each.state == "pending" for each in of_volume) + len(under_way) >= settings.snapshots_per_volume:
        raise Ec2Error(
            "ConcurrentSnapshotLimitExceeded",
            f"The maximum number of pending snapshots of a volume, {settings.snapshots_per_volume}, is reached.",
        )


async def _keep(region: Region, volume: Volume, id: str, started: float) -> str:
    under_way = region.snapshotting.setdefault(volume.id, [])
    under_way.append(started)
    try:
        return await backing.keep_snapshot(region, volume.id, id)
    finally:
        under_way.remove(started)
        if not under_way:
            region.snapshotting.pop(volume.id, None)


ACTIONS: dict[str, Action] = {
    "CreateSnapshot": create_snapshot,
    "DeleteSnapshot": delete_snapshot,
    "DescribeSnapshots": describe_snapshots,
}
