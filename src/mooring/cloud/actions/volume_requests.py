"""Checks of requests for new volumes against the records and the settings.

It changes nothing. Its functions raise Ec2Error.
"""

from __future__ import annotations

from mooring.cloud.actions.volume_types import provisioned, shape
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Shape, Volume
from mooring.cloud.region import Region
from mooring.cloud.requests.parameters import Request, flag, invalid, number, one_id, text


def zone_of(region: Region, request: Request) -> str:
    """The zone that the request gives by name or id."""
    name, zone = text(request, "AvailabilityZone"), text(request, "AvailabilityZoneId")
    if name and zone:
        raise Ec2Error(
            "InvalidParameterCombination", "Give AvailabilityZone or AvailabilityZoneId, not both."
        )
    if not name and not zone:
        raise Ec2Error(
            "MissingParameter",
            "The request must contain the parameter AvailabilityZone or AvailabilityZoneId",
        )
    return region.zone_of(name or zone)


def wanted_volume(region: Region, request: Request) -> Shape:
    """The volume that CreateVolume asks for."""
    size, least = number(request, "Size"), 0
    if text(request, "SnapshotId"):
        snapshot = region.snapshot(one_id(request, "SnapshotId", "snap"))
        if snapshot.state != "completed":
            raise Ec2Error("IncorrectState", f"Snapshot is in invalid state - {snapshot.state}")
        least = snapshot.size
    if size is None and not least:
        raise Ec2Error("MissingParameter", "The request must contain the parameter size or snapshotId")
    if size is not None and 0 < size < least:
        invalid(
            "size",
            size,
            f"Volume of {size}GiB is smaller than snapshot '{text(request, 'SnapshotId')}', of {least}GiB.",
        )
    wanted = shape(
        text(request, "VolumeType") or "gp2",
        least if size is None else size,
        number(request, "Iops"),
        number(request, "Throughput"),
        flag(request, "MultiAttachEnabled"),
    )
    check_available(region, wanted, zone_of(region, request))
    return wanted


def wanted_copy(request: Request, source: Volume) -> Shape:
    """The volume that CopyVolumes asks for."""
    size = number(request, "Size")
    if size is not None and size < source.size:
        invalid("size", size, f"A copy of '{source.id}' has at least its size, {source.size}GiB.")
    return shape(
        text(request, "VolumeType") or "gp2",
        source.size if size is None else size,
        number(request, "Iops"),
        number(request, "Throughput"),
        flag(request, "MultiAttachEnabled"),
    )


def check_available(region: Region, wanted: Shape, zone: str) -> None:
    """Raises Ec2Error (VolumeTypeNotAvailableInZone)."""
    if {wanted.type, f"{zone}:{wanted.type}"} & set(region.settings.unavailable_types):
        raise Ec2Error(
            "VolumeTypeNotAvailableInZone",
            f"The volume type '{wanted.type}' is not available in this Availability Zone. Please use a different zone.",
        )


def check_count(region: Region) -> None:
    """Raises Ec2Error (VolumeLimitExceeded), also for a request with a used client token, as EC2 does
    (upstream EBS driver, issue 2512)."""
    limit = region.settings.volume_limit
    if limit and len(region.store.volumes.records) >= limit:
        raise Ec2Error("VolumeLimitExceeded", f"The maximum number of volumes, {limit}, is reached.")


def check_iops(region: Region, wanted: Shape) -> None:
    """Raises Ec2Error (MaxIOPSLimitExceeded)."""
    limit = region.settings.iops_limit
    if not limit or not provisioned(wanted.type):
        return
    used = sum(volume.iops for volume in region.store.volumes.records.values() if provisioned(volume.type))
    if used + wanted.iops > limit:
        raise Ec2Error(
            "MaxIOPSLimitExceeded",
            f"Volume iops of {wanted.iops} is too high; maximum is {max(0, limit - used)}.",
        )


def encryption(region: Region, request: Request) -> tuple[bool, str]:
    """Whether the volume is encrypted, and with which key."""
    encrypted, key = flag(request, "Encrypted"), text(request, "KmsKeyId")
    snapshot = text(request, "SnapshotId")
    if key and not encrypted:
        raise Ec2Error(
            "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."
        )
    if snapshot and region.snapshot(snapshot).encrypted:
        return True, key or region.snapshot(snapshot).kms_key
    return encrypted, (key or default_key(region)) if encrypted else ""


def default_key(region: Region) -> str:
    """The key of the account for volumes without a key of their own."""
    settings = region.settings
    return f"arn:aws:kms:{settings.region}:{settings.account}:key/00000000-0000-4000-8000-{settings.account}"


def initialization_rate(request: Request) -> int:
    """The requested rate in MiB/s; 0 if none is requested."""
    rate = number(request, "VolumeInitializationRate")
    if rate is None:
        return 0
    if not text(request, "SnapshotId"):
        raise Ec2Error(
            "InvalidParameterCombination",
            "VolumeInitializationRate is only for volumes that are made of a snapshot.",
        )
    if not 100 <= rate <= 300:
        invalid("volumeInitializationRate", rate, "It must be from 100 to 300 MiB/s.")
    return rate
