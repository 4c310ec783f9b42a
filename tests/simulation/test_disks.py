"""The disks that EC2 has made are compared with what their class says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mooring.cloud.records.resources import Attachment, Volume
from mooring.csi.driver.capacity import GIB
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.kube.objects import PersistentVolume
from mooring.simulation.checks.disks import listed, of_class, of_volume
from mooring.simulation.cluster.disk_classes import CLASSES, PLAIN, DiskClass
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.run import play

CALM = Scenario(nodes=2, driver="ebs", sets={"db": 1}, minutes=8, faults=0, actions=0)
DISK = Volume(
    id="vol-1",
    size=1,
    type="gp3",
    zone="a",
    created=0,
    state="available",
    iops=3000,
    throughput=125,
    tags={"k": "v"},
)
WANTED = DiskClass(has=PLAIN, tags={"k": "v"}, lacks=("none",), mount_options=("noatime",))


def volume(**given: Any) -> PersistentVolume:
    """A PersistentVolume of 1 GiB in zone a."""
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    spec = {
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4"},
        "capacity": {"storage": str(GIB)},
        "mountOptions": ["noatime"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
    }
    return msgspec.convert({"metadata": {"name": "pvc-1"}, "spec": spec | given}, PersistentVolume)


@pytest.mark.parametrize("name", [*CLASSES])
def test_each_class_gives_the_disks_that_it_should(name: str):
    assert play(1, replace(CALM, disks=name)).violations == []


def test_a_disk_that_is_as_its_class_and_its_volume_say_is_right():
    assert [*of_class(DISK, WANTED), *of_volume(DISK, volume(), WANTED)] == []
    assert [*of_class(replace(DISK, size=3), WANTED)] == [], "it was enlarged"
    assert [*of_volume(DISK, volume(volumeMode="Block", mountOptions=[]), WANTED)] == [], "it is raw"
    assert [*of_volume(DISK, None, WANTED)] == [], "its volume is gone already, or not made yet"


@pytest.mark.parametrize(
    "other",
    [{"type": "gp2"}, {"iops": 3001}, {"throughput": 0}, {"encrypted": True}, {"size": 0}, {"tags": {}},
     {"tags": {"k": "w"}}, {"tags": {"k": "v", "none": ""}}],
)  # fmt: skip
def test_a_disk_that_is_otherwise_than_its_class_says_is_wrong(other: dict[str, Any]):
    assert len([*of_class(replace(DISK, **other), WANTED)]) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"capacity": {"storage": "2Gi"}},
        {"mountOptions": []},
        {"volumeMode": "Block"},
        {"nodeAffinity": None},
        {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "xfs"}},
    ],
)
def test_a_volume_that_says_something_else_of_its_disk_is_wrong(other: dict[str, Any]):
    assert len([*of_volume(DISK, volume(**other), WANTED)]) == 1


def test_a_disk_that_is_tagged_with_another_volume_is_wrong():
    tags = {"k": "v", "kubernetes.io/created-for/pv/name": "pvc-2"}
    assert len([*of_volume(replace(DISK, tags=tags), volume(), WANTED)]) == 1


def entries(**said: tuple[int, list[str]]) -> csi.ListVolumesResponse:
    """Volumes, each with its GiB and the instances that have it."""
    made = [
        csi.ListVolumesResponse.Entry(
            volume=csi.Volume(volume_id=f"vol-{id}", capacity_bytes=size * GIB),
            status=csi.ListVolumesResponse.VolumeStatus(published_node_ids=on),
        )
        for id, (size, on) in said.items()
    ]
    return csi.ListVolumesResponse(entries=made)


def test_a_driver_lists_each_disk_once_as_it_is():
    disk = replace(DISK, id="vol-a", attachments=(Attachment("i-1", "/dev/sdf", "attached", 0.0),))
    assert [*listed([disk], entries(a=(1, ["i-1"])))] == []
    for wrong in (entries(), entries(a=(2, ["i-1"])), entries(a=(1, [])), entries(a=(1, ["i-1"]), b=(1, []))):
        assert len([*listed([disk], wrong)]) == 1


def test_a_driver_that_lists_the_disks_of_another_cluster_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TagPolicy, "listed", lambda policy: {"ebs.csi.aws.com/cluster-name": "another"})
    assert "L22" in play(1, CALM).invariants


def test_a_driver_that_reads_its_class_otherwise_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TagPolicy, "_cluster", lambda policy, name: {})
    assert "L22" in play(1, replace(CALM, disks="tuned")).invariants
