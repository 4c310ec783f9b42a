"""The number of pods of one template: pods that end no longer count, and the least needed
are deleted first."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from mooring.controllers.replicaset.decide import (
    DELETION_COST,
    MOST_AT_ONCE,
    Action,
    PodDecision,
    counts,
    decide,
    selector_of,
)
from mooring.kube.objects import (
    Condition,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
)

LABELS = {"app": "a"}
OURS = OwnerReference(kind="ReplicaSet", name="rs", uid="u", controller=True)


def replica_set(replicas: int, *, deleting: bool = False) -> ReplicaSet:
    metadata = ObjectMeta(name="rs", namespace="ns", uid="u", deletion_timestamp="t" if deleting else None)
    return ReplicaSet(
        metadata=metadata, spec=ReplicaSetSpec(replicas=replicas, selector=LabelSelector(match_labels=LABELS))
    )


def pod(
    name: str,
    phase: str = "Running",
    *,
    ready: bool = True,
    node: str = "n",
    owner: OwnerReference | None = OURS,
    deleting: bool = False,
    labels: dict[str, str] = LABELS,
    created: int = 1,
    annotations: dict[str, str] | None = None,
) -> Pod:
    metadata = ObjectMeta(
        name=name,
        namespace="ns",
        uid=name,
        labels=labels,
        annotations=annotations or {},
        creation_timestamp=f"2030-01-01T00:00:{created:02}Z",
        deletion_timestamp="t" if deleting else None,
        owner_references=(owner,) if owner else (),
    )
    conditions = (
        (Condition(type="Ready", status="True", last_transition_time="2030-01-01T00:01:00Z"),)
        if ready
        else ()
    )
    return Pod(
        metadata=metadata, spec=PodSpec(node_name=node), status=PodStatus(phase=phase, conditions=conditions)
    )


def names(decisions: list[PodDecision], action: Action) -> list[str]:
    return [each.pod.name for each in decisions if each.action is action and each.pod is not None]


def created(decisions: list[PodDecision]) -> int:
    return sum(each.action is Action.CREATE for each in decisions)


def test_a_set_that_wants_more_pods_than_there_is_memory_for_gets_them_some_at_a_time():
    assert created(decide(replica_set(10**6), [])) == MOST_AT_ONCE


def test_a_pod_that_is_ending_or_has_ended_is_replaced_at_once():
    pods = [pod("a"), pod("b", deleting=True), pod("c", "Failed", ready=False)]
    assert created(decide(replica_set(3), list(filter(counts, pods)))) == 2


def test_what_is_surplus_goes_least_needed_first():
    pods = [
        pod("ready-old", created=1),
        pod("ready-young", created=9),
        pod("unready", ready=False),
        pod("pending", "Pending", ready=False),
        pod("unplaced", "Pending", ready=False, node=""),
        pod("cheap", annotations={DELETION_COST: "-5"}),
    ]
    for replicas, expected in ((5, ["unplaced"]), (2, ["unplaced", "pending", "unready", "cheap"])):
        assert names(decide(replica_set(replicas), pods), Action.DELETE) == expected
    assert names(decide(replica_set(1), pods), Action.DELETE)[-1] == "ready-young"


def test_of_equals_the_one_on_the_more_crowded_node_goes_first():
    pods = [pod("alone", node="x"), pod("one", node="y"), pod("two", node="y")]
    assert names(decide(replica_set(2), pods), Action.DELETE)[0] in ("one", "two")


def test_a_set_that_is_being_deleted_makes_nothing():
    assert decide(replica_set(3, deleting=True), [pod("left")]) == []


def test_a_replication_controller_without_selector_selects_no_pod():
    owner = ReplicationController(metadata=ObjectMeta(name="rc", namespace="ns", uid="u"))
    assert not selector_of(owner).matches(LABELS)


@given(st.integers(0, 6), st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["", "n", "m"]))))
def test_afterwards_there_are_as_many_as_wanted(replicas: int, drawn: list[tuple[bool, bool, str]]):
    pods = [pod(f"p{i}", ready=r, deleting=d, node=n) for i, (r, d, n) in enumerate(drawn)]
    decisions = decide(replica_set(replicas), list(filter(counts, pods)))
    deleted = names(decisions, Action.DELETE)
    alive = {each.name for each in pods if not each.deleting}
    assert len(alive) + created(decisions) - len(deleted) == replicas
    assert not (created(decisions) and deleted)
    assert alive.issuperset(deleted)
