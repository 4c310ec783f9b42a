"""When a node is silent, which taints it gets, when its pods must go."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.nodelifecycle.decide import (
    Heartbeat,
    evict_after,
    lost_conditions,
    silent_for,
    taints_after,
)
from mooring.kube.objects import (
    Condition,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Taint,
    Toleration,
)

UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
CORDONED = "node.kubernetes.io/unschedulable"


def node(ready: str, *taints: Taint, unschedulable: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(name="n"),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(conditions=(Condition(type="Ready", status=ready),)),
    )


def pressed(condition: str) -> Node:
    conditions = (Condition(type="Ready", status="True"), Condition(type=condition, status="True"))
    return Node(status=NodeStatus(conditions=conditions))


def test_silence_is_counted_from_when_the_last_sign_of_life_was_seen():
    assert silent_for(Heartbeat(("said",), seen=100.0), now=107.5) == 7.5


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (node("True"), set[tuple[str, str]]()),
        (node("Unknown"), {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}),
        (node("False"), {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}),
        (node("True", unschedulable=True), {(CORDONED, "NoSchedule")}),
        (node("True", Taint(key=UNREACHABLE, effect="NoExecute")), set[tuple[str, str]]()),
        (node("True", Taint(key="mine", effect="NoExecute")), {("mine", "NoExecute")}),
        (Node(), {(NOT_READY, "NoSchedule")}),
        (pressed("MemoryPressure"), {("node.kubernetes.io/memory-pressure", "NoSchedule")}),
        (pressed("NetworkUnavailable"), {("node.kubernetes.io/network-unavailable", "NoSchedule")}),
    ],
)
def test_the_taints_that_a_nodes_state_calls_for(there: Node, expected: set[tuple[str, str]]):
    assert {(taint.key, taint.effect) for taint in taints_after(there, "now")} == expected


def test_a_taint_that_stays_keeps_its_time_for_evictions_count_from_it():
    held = Taint(key=UNREACHABLE, effect="NoExecute", time_added="then")
    times = {(t.key, t.effect): t.time_added for t in taints_after(node("Unknown", held), "now")}
    assert times == {(UNREACHABLE, "NoExecute"): "then", (UNREACHABLE, "NoSchedule"): "now"}


def test_taints_are_stable():
    once = taints_after(node("Unknown", unschedulable=True), "now")
    assert taints_after(node("Unknown", *once, unschedulable=True), "later") == once


def exists(seconds: int | None = None, **more: Any) -> Toleration:
    return Toleration(key="k", operator="Exists", effect="NoExecute", toleration_seconds=seconds, **more)


GO = Taint(key="k", effect="NoExecute")


@pytest.mark.parametrize(
    ("tolerations", "taints", "after"),
    [
        ((), (GO,), 0.0),
        ((exists(),), (GO,), None),
        ((exists(30),), (GO,), 30.0),
        ((exists(30), exists(10)), (GO,), 10.0),
        ((exists(-5),), (GO,), 0.0),
        ((exists(30),), (GO, Taint(key="other", effect="NoExecute")), 0.0),
        ((), (), None),
    ],
)
def test_when_a_pod_must_go(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], after: float | None
):
    ages = dict.fromkeys(taints, 0.0)
    assert evict_after(Pod(spec=PodSpec(tolerations=tolerations)), ages) == after


def test_each_taint_counts_from_its_own_time():
    """An old taint that is tolerated for ever does not shorten what a new one is tolerated for."""
    old, new = Taint(key="old", effect="NoExecute"), Taint(key="new", effect="NoExecute")
    tolerations = (
        Toleration(key="old", operator="Exists"),
        Toleration(key="new", operator="Exists", toleration_seconds=60),
    )
    pod = Pod(spec=PodSpec(tolerations=tolerations))
    assert evict_after(pod, {old: 3600.0, new: 10.0}) == 50.0
    assert evict_after(pod, {old: 3600.0, new: 61.0}) == 0.0
    assert evict_after(pod, {old: 3600.0}) is None


def test_of_a_silent_node_only_what_it_has_reported_is_lost():
    """Mooring's agent reports no pressure, and would not take back what was said for it."""
    assert lost_conditions(node("True")) == ["Ready"]
    assert lost_conditions(Node()) == ["Ready"]
    reported = (Condition(type="Ready", status="True"), Condition(type="DiskPressure", status="False"))
    assert lost_conditions(Node(status=NodeStatus(conditions=reported))) == ["Ready", "DiskPressure"]
