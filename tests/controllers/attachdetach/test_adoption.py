"""Which volume a VolumeAttachment is about that does not say so."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest

from mooring.controllers.attachdetach.adoption import Adoption, defined_by, is_unknown
from mooring.kube.objects import Node, NodeStatus, ObjectMeta, PersistentVolume, VolumeAttachment
from mooring.kube.objects.persistentvolumes import PersistentVolumeSpec
from mooring.kube.objects.storage import VolumeAttachmentSource, VolumeAttachmentSpec
from mooring.kube.objects.volumes import CSIPersistentVolumeSource, FlexVolumeSource
from mooring.volumes.attachability import Attachability, driver_of
from mooring.volumes.names import ATTACHER, CSI_PLUGIN, volume_attachment_name

DRIVER = "csi.example.com"


def unique(handle: str, driver: str = DRIVER) -> str:
    return f"{CSI_PLUGIN}/{driver}^{handle}"


PV = VolumeAttachmentSource(persistent_volume_name="pv")


def upstreams(
    handle: str,
    node: str = "n0",
    *,
    driver: str = DRIVER,
    name: str = "",
    source: VolumeAttachmentSource = PV,
) -> VolumeAttachment:
    """Its name is a hash of driver, handle and node; it says no more than which PersistentVolume it is."""
    name = name or volume_attachment_name(CSI_PLUGIN, f"{DRIVER}^{handle}", node)
    spec = VolumeAttachmentSpec(attacher=driver, node_name=node, source=source)
    return VolumeAttachment(metadata=ObjectMeta(name=name, uid=f"{handle}-{node}"), spec=spec)


def volume(handle: str) -> PersistentVolume:
    csi = CSIPersistentVolumeSource(driver=DRIVER, volume_handle=handle)
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(csi=csi))


def node(*in_use: str) -> Node:
    return Node(metadata=ObjectMeta(name="n0"), status=NodeStatus(volumes_in_use=in_use))


class World:
    """The caches of PersistentVolumes and Nodes, each with one object or none."""

    def __init__(self, volume: PersistentVolume | None = None, node: Node | None = None) -> None:
        self.volume, self.node = volume, node
        attachability = create_autospec(Attachability, instance=True)
        attachability.answers_for.side_effect = lambda name: driver_of(name) in (DRIVER, ATTACHER)
        self.adoption = Adoption(attachability, lambda name: self.volume, lambda name: self.node)


def test_it_is_what_its_persistent_volume_says_and_stays_that_when_the_persistent_volume_is_gone():
    world, record = World(volume("v")), upstreams("v")
    assert world.adoption.volume(record) == unique("v")
    world.volume = None
    assert world.adoption.volume(record) == unique("v")
    assert world.adoption.names(unique("v")) == [record.name]


def test_it_is_unknown_until_its_node_lists_it():
    world, record = World(), upstreams("v")
    assert is_unknown(world.adoption.volume(record))
    world.node = node(unique("other"), unique("v"))
    assert world.adoption.volume(record) == unique("v")
    assert not is_unknown(unique("v"))


def test_it_is_unknown_until_a_pod_wants_its_volume():
    world, record = World(), upstreams("v")
    world.adoption.volume(record)
    assert list(world.adoption.unknown_on("n0")) == [record]
    assert list(world.adoption.unknown_on("n1")) == []
    assert world.adoption.names(unique("w")) == []
    assert world.adoption.names(unique("v")) == [record.name]
    assert world.adoption.volume(record) == unique("v")
    assert list(world.adoption.unknown_on("n0")) == []


def test_a_node_that_is_newer_than_the_cache_tells_it_for_that_moment():
    """What is kept goes by the caches."""
    world, record = World(), upstreams("v")
    assert world.adoption.volume(record, node(unique("v"))) == unique("v")
    assert is_unknown(world.adoption.volume(record))


@pytest.mark.parametrize("known", [False, True])
def test_nothing_is_remembered_of_what_is_gone(known: bool):
    world, record = World(volume("v") if known else None), upstreams("v")
    world.adoption.volume(record)
    world.adoption.forget(record)
    assert world.adoption.names(unique("v")) == []
    assert list(world.adoption.unknown_on("n0")) == []
    assert (world.adoption._named, world.adoption._of_volume, world.adoption._unknown) == ({}, {}, {})


def test_a_volume_of_which_one_record_is_gone_has_the_others_still():
    world, first, second = World(volume("v")), upstreams("v", "n0"), upstreams("v", "n1")
    for record in (first, second):
        world.adoption.volume(record)
    world.adoption.forget(first)
    assert world.adoption.names(unique("v")) == [second.name]


@pytest.mark.parametrize(
    "record",
    [
        upstreams("v", driver="other.example.com"),
        upstreams("v", driver=ATTACHER),
        upstreams("v", source=VolumeAttachmentSource()),
    ],
    ids=["of a driver that another controller attaches", "of a plugin, by another hand", "without a source"],
)
def test_what_another_controller_looks_after_is_none_of_ours(record: VolumeAttachment):
    assert World(volume("v"), node(unique("v"))).adoption.volume(record) == ""


@pytest.mark.parametrize(("name", "ours"), [("", True), ("migrated", False)])
def test_a_volume_that_it_carries_itself_is_ours_under_our_name_alone(name: str, ours: bool):
    written = {"csi": {"driver": DRIVER, "volumeHandle": "v"}}
    record = upstreams("v", name=name, source=VolumeAttachmentSource(inline_volume_spec=written))
    assert World().adoption.volume(record) == (unique("v") if ours else "")


@pytest.mark.parametrize(
    ("name", "pv", "found"),
    [
        ("", volume("v"), unique("v")),
        ("", volume("made-anew"), None),
        ("of-its-own", volume("v"), unique("v")),
        ("of-its-own", PersistentVolume(spec=PersistentVolumeSpec(flex_volume=FlexVolumeSource("d"))), ""),
    ],
    ids=["its own", "made anew for another disk", "not of a handle", "not CSI's"],
)
def test_a_persistent_volume_says_which_volume_a_record_is_about(
    name: str, pv: PersistentVolume, found: str | None
):
    assert defined_by(upstreams("v", name=name), pv) == found
