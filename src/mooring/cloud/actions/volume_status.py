"""DescribeVolumeStatus and DescribeVolumeAttribute: a volume's health, and the progress of its
initialization."""

from __future__ import annotations

from typing import Any

from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Volume
from mooring.cloud.region import Action, Region, dry_run, paged, select, zone_id
from mooring.cloud.requests.filters import Fields
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import Request, filters, ids, one_id, text

FIELDS: Fields[Volume] = {
    "availability-zone": lambda volume: (volume.zone,),
    "volume-id": lambda volume: (volume.id,),
    "volume-status.status": lambda volume: (_status(volume),),
    "volume-status.details-name": lambda _: ("io-enabled", "io-performance", "initialization-state"),
    "volume-status.details-status": lambda volume: ("passed" if _status(volume) == "ok" else "failed",),
}


async def describe_volume_status(region: Region, request: Request) -> dict[str, Any]:
    """The I/O status of volumes, and of their initialization."""
    wanted, named = filters(request), ids(request, "VolumeIds", "vol")
    page = page_of("DescribeVolumeStatus", request, 5, 1000, ids=named, with_ids=False)
    time = region.as_of(region.settings.volumes_lag_s)
    found = select(region.store.volumes, wanted, FIELDS, prefix="vol", ids=named, time=time)
    dry_run(request)
    shown, more = paged([volume for volume in found if volume.state not in ("creating", "deleting")], page)
    return {"VolumeStatuses": [_answer(region, volume) for volume in shown], **more}


async def describe_volume_attribute(region: Region, request: Request) -> dict[str, Any]:
    """autoEnableIO (never) or productCodes (none)."""
    volume = region.volume(one_id(request, "VolumeId", "vol"))
    attribute = text(request, "Attribute", required=True)
    answers: dict[str, dict[str, Any]] = {
        "autoEnableIO": {"AutoEnableIO": {"Value": False}},
        "productCodes": {"ProductCodes": []},
    }
    if attribute not in answers:
        raise Ec2Error("InvalidParameterValue", f"Value ({attribute}) for parameter attribute is invalid.")
    dry_run(request)
    return {"VolumeId": volume.id, **answers[attribute]}


def _status(volume: Volume) -> str:
    return "impaired" if volume.state == "error" else "ok"


def _answer(region: Region, volume: Volume) -> dict[str, Any]:
    passed = "passed" if _status(volume) == "ok" else "failed"
    details = [
        {"Name": "io-enabled", "Status": passed},
        {"Name": "io-performance", "Status": "not-applicable"},
    ]
    answer: dict[str, Any] = {
        "VolumeId": volume.id,
        "AvailabilityZone": volume.zone,
        "AvailabilityZoneId": zone_id(region.settings, volume.zone),
        "Actions": [],
        "Events": [],
        "VolumeStatus": {"Status": _status(volume), "Details": details},
    }
    if volume.snapshot or volume.source:
        details.append({"Name": "initialization-state", "Status": _initialization(region, volume)})
        answer["InitializationStatusDetails"] = _initialization_details(region, volume)
    return answer


def _initialization(region: Region, volume: Volume) -> str:
    return "completed" if volume.initialized <= region.clock() else "initializing"


def _initialization_details(region: Region, volume: Volume) -> dict[str, Any]:
    left, whole = max(0.0, volume.initialized - region.clock()), volume.initialized - volume.created
    kind = "volume-copy" if volume.source else "provisioned-rate" if volume.rate else "default"
    details: dict[str, Any] = {"InitializationType": kind}
    details["Progress"] = 100 if not left else max(0, min(99, int(100 * (1 - left / whole))))
    if kind == "provisioned-rate":
        details["EstimatedTimeToCompleteInSeconds"] = int(left)
    return details


ACTIONS: dict[str, Action] = {
    "DescribeVolumeStatus": describe_volume_status,
    "DescribeVolumeAttribute": describe_volume_attribute,
}
