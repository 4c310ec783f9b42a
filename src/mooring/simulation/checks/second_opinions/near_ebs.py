"""What the driver of EBS volumes might as well be asked: of volumes that EC2 shows otherwise, of requests of
classes that users write otherwise, and of other calls of EC2.

A time for which a volume has been attaching is there only while it is attaching to that instance.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.ec2.records import Attachment, Volume
from mooring.ebs.errors import Ec2Error, Ec2Unreachable
from mooring.simulation.checks.second_opinions.near_arguments import (
    Arguments,
    Change,
    given,
    near_to,
    of,
    said,
)

ANOTHER = "i-another"
SHARE, OF_MANY, OF_FEW = 0.4, 0.05, 1.0
"""Of the times that each is asked: of what is asked often less."""
STATES = ("creating", "available", "in-use", "deleting", "deleted", "error")
KEYS = ("", "arn:aws:kms:eu-1:1:key/a", "arn:aws:kms:eu-1:1:key/b")
GIB = 1 << 30


def _topology(*zones: str, preferred: str = "") -> csi.TopologyRequirement:
    first = [csi.Topology(segments={"topology.ebs.csi.aws.com/zone": preferred})] if preferred else []
    others = [csi.Topology(segments={"topology.kubernetes.io/zone": zone}) for zone in zones]
    return csi.TopologyRequirement(requisite=others, preferred=first)


BOTH = csi.TopologyRequirement(
    preferred=[
        csi.Topology(segments={"topology.kubernetes.io/zone": "b", "topology.k8s.aws/zone-id": "id-b"}),
    ]
)
TOPOLOGIES = (
    *(_topology(), _topology("a"), _topology("b", "c"), _topology("b", preferred="a")),
    *(_topology(preferred="a"), BOTH),
)

# --- attaching


def _here(chance: Random, asked: Arguments) -> Arguments:
    """EC2 shows it on the instance, in any state, by any spelling of its device's name; or does not."""
    volume, mine = asked["volume"], asked["mine"] or "/dev/xvdba"
    others = tuple(each for each in volume.attachments if each.instance_id != asked["node"])
    state = chance.choice(("attaching", "attached", "detaching", "busy"))
    device = chance.choice((mine, mine.replace("/dev/xvd", "/dev/sd"), "/dev/xvdaa", ""))
    here = Attachment(asked["node"], device, state)
    return {"volume": replace(volume, attachments=others if chance.random() < 0.2 else (*others, here))}


def _elsewhere(chance: Random, asked: Arguments) -> Arguments:
    """It is attached to another instance, too, or only there, or no longer."""
    volume = asked["volume"]
    here = tuple(each for each in volume.attachments if each.instance_id == asked["node"])
    there = Attachment(ANOTHER, "/dev/xvdba", chance.choice(("attached", "detaching")))
    shown: tuple[Attachment, ...] = chance.choice(((*here, there), (there,), here, ()))
    return {"volume": replace(volume, attachments=shown)}


def _mine(chance: Random, asked: Arguments) -> Arguments:
    """This attach has asked for nothing yet, or with the name that EC2 shows, or with another one."""
    shown = [each.device for each in asked["volume"].attachments if each.instance_id == asked["node"]]
    return {"mine": chance.choice(("", "/dev/xvdba", *shown))}


def _only_while_attaching(asked: Arguments) -> Arguments:
    volume: Volume = asked["volume"]
    here = volume.attachment(asked["node"])
    if here is None or here.state != "attaching":
        asked["attaching_s"] = 0.0
    return asked


OF_A_STEP = near_to(
    (
        *of("volume", said("state", *STATES), said("multi_attach", True, False)),
        *(given("proven", True, False), given("stays", True, False)),
        given("attaching_s", 0.0, 89.0, 91.0, 1000.0),
        *(_here, _here, _elsewhere, _elsewhere, _elsewhere, _mine),
    ),
    SHARE,
    _only_while_attaching,
)

# --- making

VOLUME: tuple[Change, ...] = (
    said("size", 1, 4, 100),
    said("zone", "a", "b"),
    said("zone_id", "", "id-a", "id-b"),
    said("snapshot_id", "", "snap-1"),
    said("source_id", "", "vol-1"),
)
CAPACITIES = [
    csi.CapacityRange(required_bytes=least * GIB, limit_bytes=most * GIB)
    for least, most in ((0, 0), (0, 4), (1, 0), (2, 4), (200, 0))
]
WANTED: tuple[Change, ...] = (
    said("capacity", *CAPACITIES),
    said("topology", *TOPOLOGIES),
    said("snapshot", "", "snap-1"),
    said("source_volume", "", "vol-1"),
    said("parameters.kms_key_id", *KEYS, "a", "alias/x"),
)
SAME: dict[str, tuple[Any, ...]] = {
    "type": ("gp3", "io2"),
    "iops": (0, 3000, 4000),
    "throughput": (0, 125, 250),
    "encrypted": (True, False),
}
"""What a request asks for by its parameters, and EC2 shows."""


OF_A_CONFLICT = near_to(
    (
        *of("volume", *VOLUME, said("kms_key_id", *KEYS), said("multi_attach", True, False)),
        *of("volume", *(said(name, *values) for name, values in SAME.items())),
        *of("wanted", *WANTED, said("multi_attach", True, False)),
        *of("wanted", *(said(f"parameters.{name}", *values) for name, values in SAME.items())),
    ),
    OF_FEW,
)

# --- calls

ACTIONS = (
    *(
        "DescribeVolumes",
        "DescribeInstances",
        "DescribeSnapshots",
        "DescribeVolumesModifications",
        "AttachVolume",
    ),
    *("CreateVolume", "DeleteVolume", "CreateSnapshot", "DeleteSnapshot", "CreateTags", "DeleteTags"),
)
REQUESTS: tuple[dict[str, Any], ...] = ({}, {"MaxResults": 5}, {"Filters": [{"Name": "tag:a"}]})
CODES = (
    "InternalError",
    "Unavailable",
    "InternalFailure",
    "ServiceUnavailable",
    "InternalServerError",
    "VolumeInUse",
)


def _error(chance: Random, asked: Arguments) -> Arguments:
    """Made anew, as it is raised."""
    return {"error": chance.choice((Ec2Unreachable("away"), Ec2Error(chance.choice(CODES), "refused")))}


OF_A_BUCKET = near_to(
    (
        given("action", *ACTIONS),
        *of("request", lambda chance, request: chance.choice(REQUESTS)),
    ),
    OF_MANY,
)
OF_A_QUOTA = near_to((given("name", *ACTIONS, *(f"{each} (all)" for each in ACTIONS[:3])),), OF_MANY)
OF_ANOTHER_TRY = near_to(
    (
        given("action", *ACTIONS),
        given("failures", 1, 2, 3, 4, 5),
        _error,
    ),
    OF_FEW,
)
