"""Creating, copying, deleting and describing volumes.

A new volume is "creating" first; `transitions` has what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.cloud.actions import backing
from mooring.cloud.actions.client_tokens import earlier, remember
from mooring.cloud.actions.tags import tags_for
from mooring.cloud.actions.volume_requests import (
    check_available,
    check_count,
    check_iops,
    default_key,
    encryption,
    initialization_rate,
    wanted_copy,
    wanted_volume,
    zone_of,
)
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Attachment, Shape, Volume
from mooring.cloud.region import Action, Region, dry_run, moment, paged, select, stamp, tag_list, zone_id
from mooring.cloud.requests.filters import Fields, yes_or_no
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import Request, filters, flag, ids, invalid, one_id, text

FIELDS: Fields[Volume] = {
    "attachment.attach-time": lambda volume: [stamp(each.time) for each in volume.attachments],
    "attachment.delete-on-termination": lambda volume: [
        *(yes_or_no(each.delete_on_termination)[0] for each in volume.attachments)
    ],
    "attachment.device": lambda volume: [each.device for each in volume.attachments],
    "attachment.instance-id": lambda volume: [each.instance for each in volume.attachments],
    "attachment.status": lambda volume: [each.state for each in volume.attachments],
    "availability-zone": lambda volume: (volume.zone,),
    "create-time": lambda volume: (stamp(volume.created),),
    "encrypted": lambda volume: yes_or_no(volume.encrypted),
    "fast-restored": lambda _: yes_or_no(False),
    "multi-attach-enabled": lambda volume: yes_or_no(volume.multi_attach),
    "size": lambda volume: (str(volume.size),),
    "snapshot-id": lambda volume: (volume.snapshot,),
    "source-volume-id": lambda volume: (volume.source,),
    "status": lambda volume: (volume.state,),
    "volume-id": lambda volume: (volume.id,),
    "volume-type": lambda volume: (volume.type,),
}


async def create_volume(region: Region, request: Request) -> dict[str, Any]:
    """Creates a volume, blank or from a snapshot."""
    zone = zone_of(region, request)
    if text(request, "OutpostArn"):
        raise Ec2Error("UnsupportedOperation", "There are no Outposts in this region.")
    check_count(region)
    if old := earlier(region, request, "CreateVolume", zone, _alive(region)):
        dry_run(request)
        return volume_answer(region, region.volume(old[0]))
    wanted = wanted_volume(region, request)
    check_iops(region, wanted)
    tags = tags_for(request, "volume")
    encrypted, key = encryption(region, request)
    rate = initialization_rate(request)
    dry_run(request)
    volume = _new(region, wanted, zone, tags, encrypted, key)
    snapshot = text(request, "SnapshotId")
    volume = msgspec.structs.replace(volume, snapshot=snapshot, rate=rate)
    region.store.put(_initializing(region, volume, bool(snapshot)))
    remember(region, request, "CreateVolume", zone, (volume.id,))
    return volume_answer(region, volume)


async def copy_volumes(region: Region, request: Request) -> dict[str, Any]:
    """Creates a volume in another one's zone, with that one's present data."""
    source = region.volume(one_id(request, "SourceVolumeId", "vol"))
    if source.state not in ("available", "in-use"):
        raise Ec2Error("IncorrectState", f"Volume '{source.id}' is in the '{source.state}' state.")
    check_count(region)
    if old := earlier(region, request, "CopyVolumes", source.zone, _alive(region)):
        dry_run(request)
        return {"Volumes": [volume_answer(region, region.volume(id)) for id in old]}
    wanted = wanted_copy(request, source)
    check_available(region, wanted, source.zone)
    check_iops(region, wanted)
    tags = tags_for(request, "volume")
    encrypted, key = (
        flag(request, "Encrypted") or source.encrypted,
        text(request, "KmsKeyId") or source.kms_key,
    )
    dry_run(request)
    volume = _new(
        region, wanted, source.zone, tags, encrypted, key or (default_key(region) if encrypted else "")
    )
    volume = _initializing(region, msgspec.structs.replace(volume, source=source.id), True)
    remember(region, request, "CopyVolumes", source.zone, (volume.id,))
    region.store.put(volume)
    await _fill(region, volume, source)
    return {"Volumes": [volume_answer(region, volume)]}


async def delete_volume(region: Region, request: Request) -> dict[str, Any]:
    """Deletes a volume that is not attached."""
    volume = region.volume(one_id(request, "VolumeId", "vol"))
    if volume.attachments:
        holders = ", ".join(each.instance for each in volume.attachments)
        raise Ec2Error("VolumeInUse", f"Volume {volume.id} is currently attached to {holders}")
    if volume.state not in ("available", "error"):
        raise Ec2Error("IncorrectState", f"Volume '{volume.id}' is in the '{volume.state}' state.")
    dry_run(request)
    region.store.put(
        msgspec.structs.replace(volume, state="deleting", due=region.delay(region.settings.deleting_s))
    )
    return {}


async def describe_volumes(region: Region, request: Request) -> dict[str, Any]:
    """Volumes by id or filter, page by page."""
    wanted, named = filters(request), ids(request, "VolumeIds", "vol")
    if len(named) > 500:
        invalid("volumeId", f"{len(named)} ids", "At most 500 volumes can be named in one call.")
    page = page_of("DescribeVolumes", request, 5, 500, with_ids=True, caps=True)
    time = region.as_of(region.settings.volumes_lag_s)
    fields: Fields[Volume] = {**FIELDS, **_zone_field(region)}
    found = select(region.store.volumes, wanted, fields, prefix="vol", ids=named, time=time)
    dry_run(request)
    shown, more = paged(found, page)
    return {"Volumes": [volume_answer(region, volume) for volume in shown], **more}


def _zone_field(region: Region) -> Fields[Volume]:
    return {"availability-zone-id": lambda volume: (zone_id(region.settings, volume.zone),)}


def volume_answer(region: Region, volume: Volume) -> dict[str, Any]:
    """A volume as answers show it."""
    answer: dict[str, Any] = {
        "VolumeId": volume.id,
        "Size": volume.size,
        "VolumeType": volume.type,
        "State": volume.state,
        "AvailabilityZone": volume.zone,
        "AvailabilityZoneId": zone_id(region.settings, volume.zone),
        "CreateTime": moment(volume.created),
        "Encrypted": volume.encrypted,
        "MultiAttachEnabled": volume.multi_attach,
        "SnapshotId": volume.snapshot,
        "Attachments": [attachment_answer(volume, each) for each in volume.attachments],
        "Tags": tag_list(volume.tags),
    }
    optional = {
        "Iops": volume.iops,
        "Throughput": volume.throughput,
        "KmsKeyId": volume.kms_key,
        "SourceVolumeId": volume.source,
        "VolumeInitializationRate": volume.rate,
    }
    return answer | {name: value for name, value in optional.items() if value}


def attachment_answer(volume: Volume, attachment: Attachment, state: str = "") -> dict[str, Any]:
    """An attachment as answers show it; `state` in place of its own."""
    return {
        "VolumeId": volume.id,
        "InstanceId": attachment.instance,
        "Device": attachment.device,
        "State": state or attachment.state,
        "AttachTime": moment(attachment.time),
        "DeleteOnTermination": attachment.delete_on_termination,
        "EbsCardIndex": attachment.card,
    }


def _new(region: Region, wanted: Shape, zone: str, tags: dict[str, str], encrypted: bool, key: str) -> Volume:
    return Volume(
        id=region.new_id("vol"),
        size=wanted.size,
        type=wanted.type,
        zone=zone,
        created=region.clock(),
        state="creating",
        iops=wanted.iops,
        throughput=wanted.throughput,
        multi_attach=wanted.multi_attach,
        encrypted=encrypted,
        kms_key=key,
        tags=tags,
        doomed=_is_bad(region, key),
        due=region.delay(region.settings.creating_s),
    )


def _is_bad(region: Region, key: str) -> bool:
    return bool(key) and any(key == bad or key.endswith(f"/{bad}") for bad in region.settings.bad_kms_keys)


def _initializing(region: Region, volume: Volume, has_content: bool) -> Volume:
    return msgspec.structs.replace(
        volume, initialized=region.delay(region.settings.initializing_s) if has_content else 0.0
    )


async def _fill(region: Region, volume: Volume, source: Volume) -> None:
    """Copies the source's data now, not when the copy becomes available, as EC2 does."""
    if not volume.doomed:
        region.store.commit()
        await backing.copy(region, source.id, volume.id)


def _alive(region: Region) -> Callable[[str], bool]:
    def alive(id: str) -> bool:
        volume = region.store.volumes.get(id)
        return volume is not None and volume.state != "deleting"

    return alive


ACTIONS: dict[str, Action] = {
    "CreateVolume": create_volume,
    "CopyVolumes": copy_volumes,
    "DeleteVolume": delete_volume,
    "DescribeVolumes": describe_volumes,
}
