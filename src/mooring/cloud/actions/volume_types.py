"""The limits of each volume type, and the check of a wanted volume against them.

Pure. Ranges are those of EC2's API reference (CreateVolume) and of the EBS User Guide ("Amazon EBS volume
types").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Shape


class VolumeType(NamedTuple):
    """Sizes in GiB, throughput in MiB/s."""

    smallest: int
    largest: int
    least_iops: int = 0
    most_iops: int = 0
    """0: IOPS cannot be chosen."""
    iops_per_gib: int = 0
    default_iops: int = 0
    """0: IOPS must be chosen, where they can be."""
    least_throughput: int = 0
    most_throughput: int = 0
    """0: throughput cannot be chosen."""
    multi_attach: bool = False


TYPES: Mapping[str, VolumeType] = {
    "gp2": VolumeType(1, 16384),
    "gp3": VolumeType(1, 65536, 3000, 80000, 500, 3000, 125, 2000),
    "io1": VolumeType(4, 16384, 100, 64000, 50, multi_attach=True),
    "io2": VolumeType(4, 65536, 100, 256000, 1000, multi_attach=True),
    "st1": VolumeType(125, 16384),
    "sc1": VolumeType(125, 16384),
    "standard": VolumeType(1, 1024),
}


def shape(type: str, size: int, iops: int | None, throughput: int | None, multi_attach: bool) -> Shape:
    """The wanted volume, with the type's defaults for what the request leaves out.

    Raises Ec2Error: UnknownVolumeType, InvalidParameterValue, InvalidParameterCombination, MissingParameter.
    """
    if type not in TYPES:
        raise Ec2Error("UnknownVolumeType", f"Unknown volume type: {type}")
    facts = TYPES[type]
    if size < facts.smallest:
        _refuse(f"Volume of {size}GiB is too small for volume type {type}; minimum is {facts.smallest}GiB.")
    if size > facts.largest:
        _refuse(f"Volume of {size}GiB is too large for volume type {type}; maximum is {facts.largest}GiB.")
    if multi_attach and not facts.multi_attach:
        _clash(f"Multi-Attach is not supported for {type} volumes.")
    chosen = _iops(type, facts, size, iops)
    return Shape(size, type, chosen, _throughput(type, facts, chosen, throughput), multi_attach)


def provisioned(type: str) -> bool:
    """Whether the type's IOPS count against the account's limit."""
    return TYPES[type].most_iops > 0


def _iops(type: str, facts: VolumeType, size: int, iops: int | None) -> int:
    if not facts.most_iops:
        if iops is not None:
            _clash(f"The parameter iops is not supported for {type} volumes.")
        return max(100, min(16000, 3 * size)) if type == "gp2" else 0
    if iops is None:
        if not facts.default_iops:
            raise Ec2Error(
                "MissingParameter", f"The request must contain the parameter iops for {type} volumes"
            )
        return facts.default_iops
    if iops < facts.least_iops:
        _refuse(f"Volume iops of {iops} is too low; minimum is {facts.least_iops}.")
    if iops > facts.most_iops:
        _refuse(f"Volume iops of {iops} is too high; maximum is {facts.most_iops}.")
    if iops > max(facts.default_iops, size * facts.iops_per_gib):
        _refuse(f"Iops to volume size ratio of {iops / size:f} is too high; maximum is {facts.iops_per_gib}.")
    return iops


def _throughput(type: str, facts: VolumeType, iops: int, throughput: int | None) -> int:
    if not facts.most_throughput:
        if throughput is not None:
            _clash(f"The parameter throughput is not supported for {type} volumes; only for gp3 volumes.")
        return 0
    if throughput is None:
        return facts.least_throughput
    if throughput < facts.least_throughput:
        _refuse(f"Throughput of {throughput} MiB/s is too low; minimum is {facts.least_throughput} MiB/s.")
    if throughput > facts.most_throughput:
        _refuse(f"Throughput of {throughput} MiB/s is too high; maximum is {facts.most_throughput} MiB/s.")
    if throughput * 4 > iops:
        _refuse(
            f"Throughput (MiBps) to iops ratio of {throughput / iops:f} is too high; maximum is 0.250000."
        )
    return throughput


def _refuse(message: str) -> NoReturn:
    raise Ec2Error("InvalidParameterValue", message)


def _clash(message: str) -> NoReturn:
    raise Ec2Error("InvalidParameterCombination", message)
