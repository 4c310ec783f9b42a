"""What a StorageClass of the EBS driver may ask for, and what EC2 should then have made.

Data: the parameters as a user writes them, the operator's flags, and what a disk for a claim of 1 GiB has by
the EBS User Guide and upstream's documentation of parameters and tagging, worked out by hand. Knows nothing
of how the driver reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class DiskClass(NamedTuple):
    """`flags`: the driver's options, by their fields' names. `has`: fields of a disk's record; of its tags
    these at the least, and none whose key is among `lacks`."""

    parameters: Mapping[str, str] = {}
    flags: Mapping[str, Any] = {}
    has: Mapping[str, Any] = {}
    tags: Mapping[str, str] = {}
    lacks: tuple[str, ...] = ()
    fs_type: str = "ext4"
    mount_options: tuple[str, ...] = ()


PLAIN = {"type": "gp3", "size": 1, "iops": 3000, "throughput": 125, "encrypted": False}
OURS = {"ebs.csi.aws.com/cluster": "true"}
OWNED = "kubernetes.io/cluster/played"
OF_CLUSTER = {OWNED: "owned", "KubernetesCluster": "played", "ebs.csi.aws.com/cluster-name": "played"}

FIXED = ("proportional", "at-most", "chosen")
"""Those of the following by which no volume can be made that is like a VolumeAttributesClass says, too: their
IOPS do not suit its type."""
CLASSES: Mapping[str, DiskClass] = {
    "": DiskClass(has=PLAIN, tags=OURS, lacks=(OWNED, "KubernetesCluster", "Name")),
    "tuned": DiskClass(
        {
            "Type": "gp3",
            "throughput": "250",
            "csi.storage.k8s.io/fstype": "xfs",
            "tagSpecification_1": "team=storage",
        },
        {"k8s_tag_cluster_id": "played"},
        PLAIN | {"throughput": 250},
        OURS | OF_CLUSTER | {"team": "storage"},
        fs_type="xfs",
        mount_options=("noatime", "nodiratime"),
    ),
    "owned": DiskClass(
        {"encrypted": "true", "tagSpecification_1": "owner=web", "tagSpecification_2": "stage=test=1"},
        {"extra_tags": {"owner": "platform", "cost": "12"}, "extra_volume_tags": {"cost": "14"}},
        PLAIN | {"encrypted": True},
        OURS | {"owner": "web", "stage": "test=1", "cost": "14"},
        (OWNED,),
    ),
    "older": DiskClass(
        {"type": "gp2", "encrypted": "false"},
        {},
        {"type": "gp2", "size": 1, "throughput": 0, "encrypted": False},
        OURS,
    ),
    "proportional": DiskClass(
        {"type": "io1", "iopsPerGB": "40"}, {}, {"type": "io1", "size": 4, "iops": 160}, OURS, ("Name",)
    ),
    "at-least": DiskClass(
        {"type": "io2", "iopsPerGB": "2", "allowAutoIOPSPerGBIncrease": "true"},
        {"k8s_tag_cluster_id": "played"},
        {"type": "io2", "size": 4, "iops": 100},
        OURS | OF_CLUSTER,
    ),
    "at-most": DiskClass(
        {"type": "io1", "iopsPerGB": "900", "allowAutoIOPSPerGBIncrease": "false"},
        {},
        {"type": "io1", "size": 4, "iops": 200},
        OURS,
    ),
    "chosen": DiskClass({"type": "io2", "iops": "300"}, {}, {"type": "io2", "size": 4, "iops": 300}, OURS),
    "slow": DiskClass({"type": "st1"}, {}, {"type": "st1", "size": 125, "encrypted": False}, OURS),
}
"""By name; "" is what a class without parameters gives."""

Parameters = Mapping[str, str]
MISTAKES: tuple[tuple[Parameters, Parameters], ...] = (
    ({"tpye": "gp3"}, {}),
    ({"type": "gp9"}, {}),
    ({"type": "io1", "iops": "100", "iopsPerGB": "10"}, {}),
    ({"throughput": "fast"}, {}),
    ({"csi.storage.k8s.io/fstype": "btrfs"}, {}),
    ({"csi.storage.k8s.io/fstype": "xfs", "ext4BigAlloc": "true"}, {}),
    ({}, {"iosp": "4000"}),
    ({}, {"iops": "many"}),
    ({}, {"iopspergb": "4"}),
)
"""What the driver has to refuse, by the documentation of its parameters: those of a StorageClass, and of a
VolumeAttributesClass. What a claim asks for with them must not become a volume of another kind."""
UNKNOWN_TO_ALL: tuple[tuple[Parameters, Parameters], ...] = (({"bad": "yes"}, {}),)
"""What every other driver refuses."""
