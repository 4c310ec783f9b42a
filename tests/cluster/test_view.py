"""What `mooring status` shows of a cluster's objects."""

from __future__ import annotations

import msgspec
import pytest

from mooring.cluster.tables import NO_NUMBER, Section, Told, as_json, lines
from mooring.cluster.view import Snapshot, legend, sections, silent
from mooring.kube.objects import (
    AttachedVolume,
    Condition,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
    VolumeError,
)
from mooring.volumes.out_of_service import TAINT


def node(name: str, ready: str) -> Node:
    """With two volumes attached, of which it uses one."""
    attached = tuple(AttachedVolume(name=each, device_path="") for each in ("v1", "v2"))
    condition = Condition(type="Ready", status=ready)
    status = NodeStatus(conditions=(condition,), volumes_attached=attached, volumes_in_use=("v1",))
    return Node(metadata=ObjectMeta(name=name), status=status)


def pod(name: str, on: str, phase: str = "Running") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(node_name=on),
        status=PodStatus(phase=phase),
    )


def record(on: str, **status: object) -> VolumeAttachment:
    """Of the volume pv."""
    source = VolumeAttachmentSource(persistent_volume_name="pv")
    return VolumeAttachment(
        metadata=ObjectMeta(name=f"of-{on}"),
        spec=VolumeAttachmentSpec(node_name=on, source=source),
        status=VolumeAttachmentStatus(**status),  # type: ignore[arg-type]
    )


def column(title: str, number: int, snapshot: Snapshot) -> list[str]:
    """One column of one table, as people see it, without its header."""
    (section,) = (each for each in sections(snapshot) if each.header[0] == title)
    return [line.split()[number] for line in lines([section])[1:]]


def test_numbers_are_numbers_for_programs():
    (row,) = as_json(sections(Snapshot([node("a", "True")], [], [pod("p", "a"), pod("q", "a")], [])))["nodes"]
    assert row == {"node": "a", "state": "Ready", "pods": 2, "attached": 2, "in_use": 1, "known": True}


def test_a_number_that_there_is_none_of_is_null_for_programs_and_a_dash_for_people():
    section = Section(("NAME", "SIZE"), [("fast", Told("1Gi", 1 << 30)), ("damaged", NO_NUMBER)])
    assert as_json([section])["names"] == [
        {"name": "fast", "size": 1 << 30},
        {"name": "damaged", "size": None},
    ]
    assert [line.split() for line in lines([section])] == [
        ["NAME", "SIZE"],
        ["fast", "1Gi"],
        ["damaged", "-"],
    ]


@pytest.mark.parametrize(("ready", "is_silent"), [("True", False), ("False", False), ("Unknown", True)])
def test_a_node_is_silent_by_its_ready_condition_alone(ready: str, is_silent: bool):
    assert silent(node("a", ready)) is is_silent


@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_a_node_that_was_said_to_be_dead_is_shown_as_that_until_its_taint_is_gone(ready: str):
    taint = Taint(key=TAINT, value="confirmed-dead", effect="NoExecute")
    said = msgspec.structs.replace(node("a", ready), spec=NodeSpec(taints=(taint,)))
    assert column("NODE", 1, Snapshot([said], [], [], []))[0].endswith(",out-of-service")


def test_a_node_without_an_object_or_a_condition_is_silent():
    assert silent(None)
    assert silent(Node(metadata=ObjectMeta(name="new")))


SILENT = Snapshot(
    [node("a", "True"), node("b", "Unknown")],
    [],
    [pod("here", "a"), pod("there", "b"), pod("over", "b", "Succeeded"), pod("unplaced", "", "Pending")],
    [record("a", attached=True), record("b", attached=True)],
)


def test_what_a_silent_node_had_said_has_a_question_mark_and_nothing_else_has():
    assert column("POD", 1, SILENT) == ["Running", "Succeeded", "Running?", "Pending"]
    assert column("VOLUME", 2, SILENT) == ["attached", "attached?"]
    assert column("NODE", 4, SILENT) == ["1", "1?"]


def test_for_programs_what_is_not_known_is_said_beside_it():
    shown = as_json(sections(SILENT))
    assert [(each["state"], each["known"]) for each in shown["pods"]] == [
        ("Running", True),
        ("Succeeded", True),
        ("Running", False),
        ("Pending", True),
    ]
    assert [(each["state"], each["known"]) for each in shown["volumes"]] == [
        ("attached", True),
        ("attached", False),
    ]
    assert [(each["in_use"], each["known"]) for each in shown["nodes"]] == [(1, True), (1, False)]


def test_the_question_mark_is_at_the_state_and_not_at_its_error():
    failed = record("b", attach_error=VolumeError(message="no such volume: d1"))
    printed = lines(sections(Snapshot([node("b", "Unknown")], [], [], [failed])))
    assert printed[-1].endswith("attaching?: no such volume: d1")


def test_the_legend_names_the_silent_nodes():
    assert legend(SILENT) == "? as last known: b does not answer"
    gone = Snapshot([node("a", "True")], [], [pod("p", "gone"), pod("q", "lost")], [])
    assert legend(gone) == "? as last known: gone, lost do not answer"


def test_the_legend_is_bounded_and_fit_for_a_terminal():
    many = Snapshot([node(f"n{number}\x1b", "Unknown") for number in range(8)], [], [], [])
    assert legend(many).endswith("n4\\x1b and 3 more do not answer")


def test_while_all_nodes_answer_there_is_no_legend():
    assert legend(Snapshot([node("a", "False")], [], [pod("p", "a"), pod("q", "")], [])) == ""
