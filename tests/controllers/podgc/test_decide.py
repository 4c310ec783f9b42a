"""Which pods may be removed without their node's report; and when an out-of-service taint is in force."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.controllers.podgc.decide import Action, Fence, decide, fence_about
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
from mooring.kube.objects.fencing import FenceAttempt, NodeFence, NodeFenceSpec, NodeFenceStatus
from mooring.volumes.out_of_service import SEEN, TAINT, identity, out_of_service, spent, taint_of
from mooring.volumes.statements import Statement, annotation


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


def a_fence(
    phase: str = "Fenced", *, scope: str = "Power", absent: bool = True, node: str = "n"
) -> NodeFence:
    """One that has shown what its only order was given for."""
    attempt = FenceAttempt(token="t", outcome="Fenced", scope=scope, absent=absent)
    proof = "t" if phase == "Fenced" else ""
    return NodeFence(
        metadata=ObjectMeta(name="f", creation_timestamp="2030-01-01T00:00:10Z"),
        spec=NodeFenceSpec(node_name=node),
        status=NodeFenceStatus(phase=phase, attempts=(attempt,), proof=proof),
    )


@pytest.mark.parametrize(
    ("fences", "found"),
    [
        ([], Fence.NONE),
        ([a_fence(node="another")], Fence.NONE),
        ([a_fence("Cancelled")], Fence.NONE),
        ([a_fence("")], Fence.AWAITED),
        ([a_fence("Pending")], Fence.AWAITED),
        ([a_fence("AwaitingPerson")], Fence.AWAITED),
        ([a_fence(scope="Storage")], Fence.AWAITED),
        ([a_fence(absent=False)], Fence.AWAITED),
        ([a_fence("Cancelled"), a_fence()], Fence.OFF),
    ],
)
def test_what_fences_say_of_a_pod_whose_node_is_gone(fences: list[NodeFence], found: Fence):
    assert fence_about(pod(), fences) is found


def stated(fence: NodeFence, *, uid: str = "u", absent: bool = True) -> NodeFence:
    """With a person's word that the machine is off, of that registration of its node."""
    marks = annotation(Statement(uid, absent=absent))
    metadata = replace(fence.metadata, annotations=marks)
    return replace(fence, metadata=metadata, spec=replace(fence.spec, node_uid="u"))


@pytest.mark.parametrize("fence", [a_fence("AwaitingPerson"), a_fence(scope="Storage"), a_fence("Fencing")])
def test_a_person_may_say_on_a_fence_under_way_that_the_machine_of_a_node_that_is_gone_is_off(
    fence: NodeFence,
):
    assert fence_about(pod(), [stated(fence)]) is Fence.OFF


@pytest.mark.parametrize("word", [{"absent": False}, {"uid": "another"}])
def test_a_word_about_a_node_that_was_there_or_about_another_one_ends_no_pod(word: dict[str, Any]):
    assert fence_about(pod(), [stated(a_fence(scope="Storage"), **word)]) is Fence.AWAITED


YOUNG = replace(pod(), metadata=ObjectMeta(name="p", creation_timestamp="2030-01-01T00:00:11Z"))
"""Than every fence here."""


@pytest.mark.parametrize(
    "fences", [[a_fence("Pending")], [a_fence(scope="Storage")], [a_fence(), a_fence("")]]
)
def test_a_pod_that_is_younger_than_a_fence_waits_until_that_machine_is_off(fences: list[NodeFence]):
    assert fence_about(YOUNG, fences) is Fence.AWAITED


@pytest.mark.parametrize("fence", [a_fence(), stated(a_fence(scope="Storage"))])
def test_of_a_pod_that_is_younger_a_fence_says_nothing_more_when_its_machine_is_off(fence: NodeFence):
    """It may have been bound to another registration of the name, or to none: what the deletion of a Node
    says elsewhere holds for it."""
    assert fence_about(YOUNG, [fence]) is Fence.NONE


@pytest.mark.parametrize("deletion_confirms", [False, True])
def test_where_a_fence_is_under_way_it_is_asked_before_a_deletion_counts(deletion_confirms: bool):
    given = {"deletion_confirms": deletion_confirms}
    assert decide(pod(), None, fence=Fence.AWAITED, **given).action is Action.KEEP
    assert decide(pod(), None, fence=Fence.OFF, **given).action is Action.REMOVE
