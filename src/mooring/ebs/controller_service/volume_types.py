"""The limits of volume types (sizes, IOPS) as data, and the sizes and IOPS that follow from them. Pure.

Sizes are in GiB. Source: EBS User Guide, "Amazon EBS volume types"; EC2's API reference, CreateVolume. EC2
decides: a request for a type that is not in this table is passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

DEFAULT_GIB = 100
"""The size of a volume if the request gives none (as upstream)."""


@dataclass(frozen=True)
class VolumeType:
    """Sizes in GiB. `iops_per_gib` 0: IOPS cannot be chosen."""

    smallest: int
    largest: int
    least_iops: int = 0
    most_iops: int = 0
    iops_per_gib: int = 0
    multi_attach: bool = False


TYPES: Mapping[str, VolumeType] = {
    "gp2": VolumeType(1, 16384),
    "gp3": VolumeType(1, 65536, 3000, 80000, 500),
    "io1": VolumeType(4, 16384, 100, 64000, 50),
    "io2": VolumeType(4, 65536, 100, 256000, 1000, multi_attach=True),
    "st1": VolumeType(125, 16384),
    "sc1": VolumeType(125, 16384),
    "standard": VolumeType(1, 1024),
}
_UNKNOWN = VolumeType(1, 65536)


def size_for(wanted: csi.CapacityRange, type: str, least: int = 0) -> int:
    """The size of a new volume, of at least `least` (its source's). Raises CsiError, OUT_OF_RANGE."""
    facts = TYPES.get(type, _UNKNOWN)
    requested = -(-wanted.required_bytes // GIB) or (0 if wanted.limit_bytes or least else DEFAULT_GIB)
    size = max(requested, facts.smallest, least)
    if size > facts.largest:
        raise CsiError(Code.OUT_OF_RANGE, f"{size} GiB: a {type} volume has at most {facts.largest} GiB")
    if wanted.limit_bytes and size * GIB > wanted.limit_bytes:
        raise CsiError(
            Code.OUT_OF_RANGE,
            f"{size} GiB is the least that would do, and the limit is {wanted.limit_bytes} bytes: "
            "EC2 has whole GiB, and each volume type its least size",
        )
    return size


def iops_for(type: str, size: int, per_gb: int, raise_to_least: bool) -> int:
    """IOPS in proportion to the size, within what the type can have; 0 if the type has no IOPS to choose.
    Raises CsiError, INVALID_ARGUMENT, if they are too few and may not be raised."""
    facts = TYPES.get(type, _UNKNOWN)
    if not per_gb or not facts.iops_per_gib:
        return 0
    iops = per_gb * size
    if iops < facts.least_iops:
        if not raise_to_least:
            raise CsiError(
                Code.INVALID_ARGUMENT,
                f"{per_gb} IOPS per GiB are {iops} for {size} GiB; a {type} volume has at least {facts.least_iops}: "
                "ask for more, or set allowAutoIOPSPerGBIncrease",
            )
        iops = facts.least_iops
    most = max(min(facts.most_iops, size * facts.iops_per_gib), facts.least_iops)
    return min(iops, most)
