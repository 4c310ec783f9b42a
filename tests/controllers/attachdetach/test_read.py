"""What is read of a VolumeAttachment and of a Node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.controllers.attachdetach.state import Attachment, NodeState
from mooring.kube.objects import Node, VolumeAttachment
from mooring.volumes.names import (
    ATTACH_EPOCH,
    BROKEN,
    CONTROLLER_MANAGED,
    DETACHED,
    DETACHING,
    FORCE_DETACH_REPORT,
    FORCE_DETACH_SINCE,
    NODE_ABSENT_SINCE,
    NODE_MACHINE,
    NODE_UID,
    RECONSTRUCTED,
)
from mooring.volumes.out_of_service import TAINT

T0, T1, T2 = (f"2030-01-01T00:00:0{second}Z" for second in range(3))


def record(**changes: Any) -> VolumeAttachment:
    notes = {
        NODE_UID: "u",
        ATTACH_EPOCH: "5",
        NODE_MACHINE: "m ",
        BROKEN: "by me",
        DETACHING: "t",
        FORCE_DETACH_SINCE: T1,
        FORCE_DETACH_REPORT: "r1",
        NODE_ABSENT_SINCE: T2,
        DETACHED: T2,
    }
    metadata = {"name": "va", "creationTimestamp": T0, "deletionTimestamp": T2, "annotations": notes}
    status = {"attached": True, "attachError": {"message": "a"}, "detachError": {"message": "d"}}
    body = {"metadata": metadata, "spec": {"nodeName": "n0"}, "status": status, **changes}
    return msgspec.convert(body, VolumeAttachment)


def test_all_that_a_record_says_is_read():
    assert Attachment.of(record()) == Attachment(
        name="va",
        node="n0",
        attached=True,
        marked=True,
        deleting=True,
        node_uid="u",
        attach_error="a",
        detach_error="d",
        created=T0,
        epoch=5,
        force_since=T1,
        force_report="r1",
        absent_since=T2,
        broken="by me",
        detached=True,
        machine="m ",
    )


def test_of_a_record_that_says_nothing_nothing_is_assumed():
    found = Attachment.of(record(metadata={"name": "va"}, status={}))
    assert found == Attachment("va", "n0", False, False, False, "", "", "")
    assert (found.created, found.epoch, found.detached, found.usable) == ("", 0, False, False)


@pytest.mark.parametrize(
    ("attached", "notes", "deleted", "usable"),
    [
        (True, {}, None, True),
        (False, {}, None, False),
        (True, {DETACHING: "t"}, None, False),
        (True, {}, T2, False),
    ],
)
def test_a_pod_may_mount_what_is_attached_and_stays(
    attached: bool, notes: dict[str, str], deleted: str | None, usable: bool
):
    metadata = {"name": "va", "annotations": notes, "deletionTimestamp": deleted}
    assert Attachment.of(record(metadata=metadata, status={"attached": attached})).usable is usable


def node(*taints: dict[str, str], ready: str = "Unknown", **annotations: str) -> Node:
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "volumesAttached": [{"name": "v", "devicePath": ""}, {"name": "w", "devicePath": ""}],
        "volumesInUse": ["w", "x"],
    }
    metadata = {"name": "n0", "uid": "u", "creationTimestamp": T0, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": {"taints": taints}, "status": status}, Node)


@pytest.mark.parametrize(
    ("volume", "reported", "in_use"),
    [("v", True, False), ("w", True, True), ("x", False, True), ("y", False, False)],
)
def test_of_a_node_it_is_read_what_it_says_of_the_volume(volume: str, reported: bool, in_use: bool):
    there = node(**{CONTROLLER_MANAGED: "true"})
    assert NodeState.of(there, volume) == NodeState(
        name="n0",
        uid="u",
        ready="Unknown",
        managed=True,
        reconstructed=False,
        reported=reported,
        in_use=in_use,
        tainted=False,
        taint_spent=False,
        out_of_service=False,
        created=T0,
        node=there,
    )
    other = NodeState.of(node(**{RECONSTRUCTED: "b1"}), volume)
    assert (other.managed, other.reconstructed) == (False, True)


def test_a_node_without_a_time_is_older_than_any():
    assert NodeState.of(Node(), "v").created == ""


OUT = {"key": TAINT, "effect": "NoExecute", "value": "nodeshutdown"}


@pytest.mark.parametrize(
    ("taints", "ready", "expected"),
    [
        ((OUT,), "Unknown", (True, False, True)),
        ((OUT,), "True", (True, False, False)),
        (({**OUT, "effect": "NoSchedule"},), "Unknown", (False, False, False)),
        (({**OUT, "key": "another"},), "Unknown", (False, False, False)),
        ((), "Unknown", (False, False, False)),
    ],
)
def test_a_node_is_out_of_service_under_its_taint_while_it_is_silent(
    taints: tuple[dict[str, str], ...], ready: str, expected: tuple[bool, bool, bool]
):
    found = NodeState.of(node(*taints, ready=ready), "v")
    assert (found.tainted, found.taint_spent, found.out_of_service) == expected


@pytest.mark.parametrize("written", ["soon", "9999-12-31T23:59:59Z", "2026-13-01T00:00:00Z"])
def test_a_timer_whose_beginning_a_person_has_spoiled_begins_anew(written: str):
    notes = {FORCE_DETACH_SINCE: written, NODE_ABSENT_SINCE: written}
    read = Attachment.of(record(metadata={"name": "va", "annotations": notes}))
    assert (read.force_since, read.absent_since) == ("", "")
