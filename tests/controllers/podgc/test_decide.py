"""Which pods may be removed without their node's report; and when an out-of-service taint is in force."""

from __future__ import annotations

import pytest

from mooring.controllers.podgc.decide import Action, decide
from mooring.kube.objects import (
    Condition,
    ManagedMeta,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Taint,
)
from mooring.volumes.out_of_service import SEEN, TAINT, identity, out_of_service, spent, taint_of


def pod(node: str = "n", *, deleting: bool = False) -> Pod:
    metadata = ObjectMeta(name="p", namespace="default", deletion_timestamp="t" if deleting else None)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node))


def node(
    ready: str = "Unknown", *, added: str | None = "t1", seen: str = "", effect: str = "NoExecute"
) -> Node:
    taints = (Taint(key="other", effect="NoExecute"), Taint(key=TAINT, effect=effect, time_added=added))
    return Node(
        metadata=ManagedMeta(name="n", annotations={SEEN: seen} if seen else {}),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(conditions=(Condition(type="Ready", status=ready),)),
    )


HEALTHY = Node(
    metadata=ObjectMeta(name="n"), status=NodeStatus(conditions=(Condition(type="Ready", status="True"),))
)


@pytest.mark.parametrize("deleting", [False, True])
def test_where_the_deletion_of_a_node_confirms_nothing_its_pods_stay(deleting: bool):
    decision = decide(pod(deleting=deleting), None, deletion_confirms=False)
    assert decision.action is Action.KEEP
    assert "kubectl delete pod --force" in decision.reason.message


@pytest.mark.parametrize(
    ("given_pod", "there", "code"),
    [
        (pod(), None, "orphaned"),
        (pod(deleting=True), None, "orphaned"),
        (pod(deleting=True), node(), "out-of-service"),
        (pod(), node(), None),
        (pod(deleting=True), HEALTHY, None),
        (pod(deleting=True), node("True"), None),
        (pod(deleting=True), node("False"), None),
        (pod(deleting=True), node(seen="t1"), None),
        (pod("", deleting=True), None, "unscheduled"),
        (pod(""), None, None),
    ],
)
def test_which_pods_may_be_removed(given_pod: Pod, there: Node | None, code: str | None):
    decision = decide(given_pod, there)
    assert (decision.reason.code if decision.action is Action.REMOVE else None) == code


@pytest.mark.parametrize(
    ("there", "in_force"),
    [
        (node(), True),
        (node("False"), False),  # an agent is alive (C10)
        (node("True"), False),
        (node(seen="t1"), False),  # it has reported under this taint (C11)
        (node(seen="t0"), True),  # it had reported under an earlier one
        (node(effect="NoSchedule"), False),
        (node(added=None, seen="true"), False),
        (HEALTHY, False),
    ],
)
def test_when_an_out_of_service_taint_is_in_force(there: Node, in_force: bool):
    assert out_of_service(there) is in_force


def test_what_a_node_has_seen_spends_that_taint_and_no_other():
    taint = taint_of(node())
    assert taint is not None
    assert spent(node(seen=identity(taint)))
    assert not spent(node(added="t2", seen=identity(taint)))
    assert not spent(HEALTHY)
