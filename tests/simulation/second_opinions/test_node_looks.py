"""Second opinions about the live looks of a node agent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from step_requests import read, said_of

from mooring.kube.errors import Forbidden, NotFound
from mooring.kube.objects import (
    AttachedVolume,
    Node,
    ObjectMeta,
    PersistentVolume,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.kube.objects.nodes import NodeStatus, NodeSystemInfo
from mooring.node.volumes.handshake import NotAttachedYet, Permission
from mooring.simulation.checks.second_opinions.node_looks import lost_its_ground, permitted
from mooring.volumes.attachment_lock import Lock, annotation
from mooring.volumes.names import ATTACH_EPOCH, INLINE_VOLUME

V = "example.com/disk/d1"
GONE, REFUSED = NotFound("", status=404), Forbidden("", status=403)
NODE = Node(
    metadata=ObjectMeta(name="n1", uid="node"),
    status=NodeStatus(
        volumes_in_use=(V,),
        volumes_attached=(AttachedVolume(name=V),),
        node_info=NodeSystemInfo(boot_id="boot"),
    ),
)
RECORD = VolumeAttachment(
    metadata=ObjectMeta(name="va", uid="va-uid", annotations={ATTACH_EPOCH: "3"}),
    spec=VolumeAttachmentSpec(
        attacher="a", node_name="n1", source=VolumeAttachmentSource(persistent_volume_name="pv")
    ),
)
INLINE = replace(RECORD, metadata=replace(RECORD.metadata, annotations={INLINE_VOLUME: "{}"}))
OTHER = replace(RECORD, metadata=replace(RECORD.metadata, uid="other"))


def volume(epoch: int) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name="pv", annotations=annotation(Lock(epoch, "n1"))))


def of_node(**changes: Any) -> Any:
    return read(Node, "n1", replace(NODE, status=replace(NODE.status, **changes)))


OF_NODE, OF_RECORD, OF_LOCK = read(Node, "n1", NODE), read(VolumeAttachment, "va", RECORD), volume(3)
REGISTERED_ANEW = read(Node, "n1", replace(NODE, metadata=replace(NODE.metadata, uid="new")))
BOOTED = of_node(node_info=NodeSystemInfo(boot_id="next"))


def of_a_look(answer: Any, *requests: Any) -> list[str]:
    client: Any = None
    return said_of(lambda mark: permitted(answer, mark, client, "n1", "node", "boot", V), *requests)


def test_a_mount_is_permitted_by_what_was_read_in_that_step():
    may = Permission({}, "va-uid", "node", 3)
    assert of_a_look(may, OF_NODE, OF_RECORD, read(PersistentVolume, "pv", OF_LOCK)) == []
    unlocked = Permission({}, "va-uid", "node", 0)
    assert of_a_look(unlocked, OF_NODE, read(VolumeAttachment, "va", INLINE)) == []


@pytest.mark.parametrize(
    "requests",
    [
        (OF_NODE, OF_RECORD),
        (OF_NODE, OF_RECORD, read(PersistentVolume, "pv", volume(4))),
        (OF_NODE, OF_RECORD, read(PersistentVolume, "pv", GONE)),
        (OF_NODE, OF_RECORD, read(PersistentVolume, "pv", REFUSED)),
        (OF_NODE, read(VolumeAttachment, "va", OTHER), read(PersistentVolume, "pv", OF_LOCK)),
        (OF_NODE, read(PersistentVolume, "pv", OF_LOCK)),
        (OF_RECORD, read(PersistentVolume, "pv", OF_LOCK)),
        (of_node(volumes_in_use=()), OF_RECORD, read(PersistentVolume, "pv", OF_LOCK)),
        (of_node(volumes_attached=()), OF_RECORD, read(PersistentVolume, "pv", OF_LOCK)),
        (REGISTERED_ANEW, OF_RECORD, read(PersistentVolume, "pv", OF_LOCK)),
        (BOOTED, OF_RECORD, read(PersistentVolume, "pv", OF_LOCK)),
    ],
)
def test_a_mount_that_nothing_read_permits_is_objected_to(requests: Any):
    assert of_a_look(Permission({}, "va-uid", "node", 3), *requests)


def test_a_look_goes_no_further_than_a_node_that_does_not_permit_the_mount():
    not_yet = NotAttachedYet("")
    assert of_a_look(not_yet, BOOTED) == of_a_look(not_yet, OF_NODE, OF_RECORD) == []
    assert of_a_look(not_yet, BOOTED, OF_RECORD)


LISTS, LISTS_NOT = OF_NODE, of_node(volumes_attached=())
MUST_NOT_BE_READ = read(VolumeAttachment, "va", REFUSED)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([OF_RECORD], False),
        ([read(VolumeAttachment, "va", OTHER)], True),
        ([read(VolumeAttachment, "va", GONE)], True),
        ([MUST_NOT_BE_READ, LISTS_NOT], True),
        ([MUST_NOT_BE_READ, read(Node, "n1", GONE)], True),
        ([MUST_NOT_BE_READ, LISTS], REFUSED),
    ],
)
def test_a_mount_that_counts_as_stale_without_a_reason_is_objected_to(requests: Any, expected: Any):
    client: Any = None
    for answer in (True, False, REFUSED):
        said = said_of(lambda m, a=answer: lost_its_ground(a, m, client, "n1", V, "va-uid"), *requests)
        assert bool(said) is ((answer is True) is not (expected is True))
    assert said_of(lambda mark: lost_its_ground(True, mark, client, "n1", V, "va-uid"))
