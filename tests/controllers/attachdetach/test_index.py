"""Which volumes a change of a Node marks."""

from __future__ import annotations

import pytest

from mooring.controllers.attachdetach import index
from mooring.kube.objects import AttachedVolume, Condition, Node, NodeStatus, ObjectMeta


def node(
    ready: str = "True", *, heartbeat: str = "1", attached: tuple[str, ...] = (), in_use: tuple[str, ...] = ()
) -> Node:
    condition = Condition("Ready", ready, last_heartbeat_time=heartbeat)
    listed = tuple(AttachedVolume(name, "") for name in attached)
    status = NodeStatus(conditions=(condition,), volumes_attached=listed, volumes_in_use=in_use)
    return Node(metadata=ObjectMeta(name="n0", uid="uid-n0"), status=status)


def test_a_heartbeat_of_a_node_that_answers_marks_nothing():
    assert index._differing(node(heartbeat="1"), node(heartbeat="2")) == []
    assert index._of_node_matters(node(heartbeat="1")) == index._of_node_matters(node(heartbeat="2"))


def test_a_late_report_of_a_node_that_counts_as_silent_marks_all_its_volumes():
    """It may spend an operator's statement that the node is dead."""
    assert index._differing(node("Unknown", heartbeat="1"), node("Unknown", heartbeat="2")) is None


def test_a_node_that_falls_silent_marks_all_its_volumes():
    assert index._differing(node(), node("Unknown")) is None


@pytest.mark.parametrize("old", [node(attached=("a", "b"), in_use=("b", "c"))])
def test_lists_that_change_mark_what_was_added_or_removed(old: Node):
    assert index._differing(old, node(attached=("b", "d"), in_use=("b",))) == ["a", "c", "d"]
