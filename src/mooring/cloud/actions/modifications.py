"""ModifyVolume: another size, type or performance, without detaching.

A modification is "modifying" (nothing has changed yet), then "optimizing" (size and performance are the new
ones), then "completed". EC2 allows four in 24 hours, one at a time (EBS User Guide, "Modify a volume").
"""

from __future__ import annotations

from typing import Any

from mooring.cloud.actions.volume_types import TYPES, shape
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Modification, Shape, Volume
from mooring.cloud.region import Action, Region, dry_run, moment, paged, select, stamp
from mooring.cloud.requests.filters import Fields
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import Request, filters, flag, ids, number, one_id, text

DAY_S = 24 * 3600.0

FIELDS: Fields[Modification] = {
    "modification-state": lambda one: (one.state,),
    "original-iops": lambda one: (str(one.original.iops),),
    "original-size": lambda one: (str(one.original.size),),
    "original-volume-type": lambda one: (one.original.type,),
    "originalMultiAttachEnabled": lambda one: (str(one.original.multi_attach).lower(),),
    "start-time": lambda one: (stamp(one.started),),
    "target-iops": lambda one: (str(one.target.iops),),
    "target-size": lambda one: (str(one.target.size),),
    "target-volume-type": lambda one: (one.target.type,),
    "targetMultiAttachEnabled": lambda one: (str(one.target.multi_attach).lower(),),
    "volume-id": lambda one: (one.id,),
}


async def modify_volume(region: Region, request: Request) -> dict[str, Any]:
    """Begins a modification."""
    volume = region.volume(one_id(request, "VolumeId", "vol"))
    names = ("Size", "VolumeType", "Iops", "Throughput", "MultiAttachEnabled")
    if all(request.get(name) is None for name in names):
        raise Ec2Error("InvalidParameterCombination", f"Give at least one of {', '.join(names)}.")
    if volume.state not in ("available", "in-use"):
        raise Ec2Error("IncorrectState", f"Volume '{volume.id}' is in the '{volume.state}' state.")
    target = _target(request, volume)
    starts = _starts(region, volume)
    dry_run(request)
    modification = Modification(
        id=volume.id,
        state="modifying",
        started=region.clock(),
        original=Shape(volume.size, volume.type, volume.iops, volume.throughput, volume.multi_attach),
        target=target,
        starts=(*starts, region.clock()),
        due=region.delay(region.settings.modifying_s),
    )
    region.store.put(modification)
    return {"VolumeModification": modification_answer(modification, region.clock())}


async def describe_modifications(region: Region, request: Request) -> dict[str, Any]:
    """The last modification of each volume. Refuses the id of a volume that was never modified."""
    wanted, named = filters(request), ids(request, "VolumeIds", "vol")
    page = page_of("DescribeVolumesModifications", request, 1, 500, with_ids=True)
    time = region.as_of(region.settings.modifications_lag_s)
    now = region.clock() if time is None else time
    table = region.store.modifications
    if named:
        select(region.store.volumes, [], {}, prefix="vol", ids=named)
    if absent := [id for id in named if table.as_of(id, time) is None]:
        raise Ec2Error(
            "InvalidVolumeModification.NotFound",
            f"Modification for volume '{', '.join(absent)}' does not exist.",
        )
    found = select(table, wanted, FIELDS, prefix="vol", ids=named, time=time)
    dry_run(request)
    shown, more = paged(found, page)
    return {"VolumesModifications": [modification_answer(each, now) for each in shown], **more}


def modification_answer(modification: Modification, now: float) -> dict[str, Any]:
    """A modification as answers show it at `now`."""
    answer: dict[str, Any] = {
        "VolumeId": modification.id,
        "ModificationState": modification.state,
        "Progress": _progress(modification, now),
        "StartTime": moment(modification.started),
    }
    for when, of in (("Original", modification.original), ("Target", modification.target)):
        answer |= {
            f"{when}Size": of.size,
            f"{when}VolumeType": of.type,
            f"{when}MultiAttachEnabled": of.multi_attach,
        }
        answer |= {f"{when}Iops": of.iops} if of.iops else {}
        answer |= {f"{when}Throughput": of.throughput} if of.throughput else {}
    if modification.ended:
        answer["EndTime"] = moment(modification.ended)
    if modification.message:
        answer["StatusMessage"] = modification.message
    return answer


def _target(request: Request, volume: Volume) -> Shape:
    size, type = number(request, "Size"), text(request, "VolumeType") or volume.type
    if size is not None and size < volume.size:
        raise Ec2Error(
            "InvalidParameterValue",
            f"New size cannot be smaller than existing size: {size}GiB was asked for, '{volume.id}' has {volume.size}.",
        )
    iops, throughput = number(request, "Iops"), number(request, "Throughput")
    multi_attach = (
        volume.multi_attach
        if request.get("MultiAttachEnabled") is None
        else flag(request, "MultiAttachEnabled")
    )
    if multi_attach != volume.multi_attach and (volume.type != "io2" or volume.attachments):
        raise Ec2Error(
            "InvalidParameterCombination",
            "Multi-Attach is changed only of io2 volumes that are not attached.",
        )
    if type == volume.type or (iops is None and type in TYPES and not TYPES[type].default_iops):
        iops = _wanted_or_present(
            iops, volume.iops, type, chosen=bool(type in TYPES and TYPES[type].most_iops)
        )
    if type == volume.type:
        throughput = _wanted_or_present(
            throughput, volume.throughput, type, chosen=bool(type in TYPES and TYPES[type].most_throughput)
        )
    return shape(type, size or volume.size, iops, throughput, multi_attach)


def _wanted_or_present(wanted: int | None, present: int, type: str, *, chosen: bool) -> int | None:
    """The wanted value, or the present one if none is wanted and the type lets it be chosen."""
    return present if wanted is None and chosen and present else wanted


def _starts(region: Region, volume: Volume) -> tuple[float, ...]:
    last = region.modification(volume.id)
    if last is None:
        return ()
    if last.state in ("modifying", "optimizing"):
        raise Ec2Error(
            "IncorrectModificationState",
            f"Volume '{volume.id}' is in '{last.state}' state: it cannot be modified until that has completed.",
        )
    starts = tuple(began for began in last.starts if began > region.clock() - DAY_S)
    if len(starts) >= region.settings.modifications_per_day:
        raise Ec2Error(
            "VolumeModificationRateExceeded",
            f"You've reached the maximum modification rate per volume limit of '{volume.id}': "
            f"{region.settings.modifications_per_day} in 24 hours.",
        )
    return starts


def _progress(modification: Modification, now: float) -> int:
    if modification.state in ("completed", "failed"):
        return 100 if modification.state == "completed" else 0
    if modification.state == "modifying" or modification.due <= modification.optimizing:
        return 0
    share = (now - modification.optimizing) / (modification.due - modification.optimizing)
    return max(1, min(99, int(100 * share)))


ACTIONS: dict[str, Action] = {
    "ModifyVolume": modify_volume,
    "DescribeVolumesModifications": describe_modifications,
}
