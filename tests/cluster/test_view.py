"""What `mooring status` shows of a cluster's objects."""

from __future__ import annotations

from mooring.cluster.view import NO_NUMBER, Snapshot, Told, as_json, sections, table
from mooring.kube.objects import (
    AttachedVolume,
    Condition,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
)


def node(name: str, ready: str) -> Node:
    """With two volumes attached, of which it uses one."""
    attached = tuple(AttachedVolume(name=each, device_path="") for each in ("v1", "v2"))
    condition = Condition(type="Ready", status=ready)
    status = NodeStatus(conditions=(condition,), volumes_attached=attached, volumes_in_use=("v1",))
    return Node(metadata=ObjectMeta(name=name), status=status)


def pod(name: str, on: str) -> Pod:
    status = PodStatus(phase="Running")
    return Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=PodSpec(node_name=on), status=status)


def test_numbers_are_numbers_for_programs():
    shown = as_json(sections(Snapshot([node("a", "True")], [], [pod("p", "a"), pod("q", "a")], [])))
    assert shown["nodes"] == [{"node": "a", "state": "Ready", "pods": 2, "attached": 2, "in_use": 1}]


def test_a_number_that_there_is_none_of_is_null_for_programs_and_a_dash_for_people():
    section = (("NAME", "SIZE"), [("fast", Told("1Gi", 1 << 30)), ("damaged", NO_NUMBER)])
    assert as_json([section])["names"] == [
        {"name": "fast", "size": 1 << 30},
        {"name": "damaged", "size": None},
    ]
    assert [line.split() for line in table(*section).splitlines()] == [
        ["NAME", "SIZE"],
        ["fast", "1Gi"],
        ["damaged", "-"],
    ]
