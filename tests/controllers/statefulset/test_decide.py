"""Stable identities: in order, one change at a time, and never two pods of one name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.statefulset.decide import (
    MOST_AT_ONCE,
    Action,
    decide,
    is_ready,
    ordinal_of,
    revision_for,
)
from mooring.kube.objects import (
    Condition,
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectMeta,
    Ordinals,
    Pod,
    PodStatus,
    RollingUpdate,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    UpdateStrategy,
)
from mooring.kube.revisions import REVISION


def stateful_set(replicas: int = 3, *, deleting: bool = False, **spec: Any) -> StatefulSet:
    metadata = ObjectMeta(name="app", namespace="ns", uid="u", deletion_timestamp="t" if deleting else None)
    return StatefulSet(metadata=metadata, spec=StatefulSetSpec(replicas=replicas, **spec))


def pod(
    ordinal: int, phase: str = "Running", *, ready: bool = True, deleting: bool = False, revision: str = "r1",
    waiting: str = "",
) -> Pod:  # fmt: skip
    metadata = ObjectMeta(
        name=f"app-{ordinal}", labels={REVISION: revision}, deletion_timestamp="t" if deleting else None
    )
    since = "2030-01-01T00:00:00Z"
    conditions = (Condition(type="Ready", status="True" if ready else "False", last_transition_time=since),)
    state = ContainerState(waiting=ContainerStateWaiting(reason=waiting) if waiting else None)
    statuses = (ContainerStatus(name="main", state=state),)
    return Pod(
        metadata=metadata, status=PodStatus(phase=phase, conditions=conditions, container_statuses=statuses)
    )


NOW = datetime(2030, 1, 1, 0, 0, 30, tzinfo=UTC)


def steps(given_set: StatefulSet, *pods: Pod, revision: str = "r1") -> list[tuple[Action, int]]:
    by_ordinal = {int(each.name.rpartition("-")[2]): each for each in pods}
    return [(step.action, step.ordinal) for step in decide(given_set, by_ordinal, revision, NOW)]


def test_a_set_that_wants_more_pods_than_there_is_memory_for_gets_them_some_at_a_time():
    endless = stateful_set(10**6, pod_management_policy="Parallel")
    assert steps(endless) == [(Action.CREATE, ordinal) for ordinal in range(MOST_AT_ONCE)]
    assert steps(endless, pod(0), pod(1))[-1] == (Action.CREATE, MOST_AT_ONCE + 1)


def test_pods_are_created_in_order_each_after_its_predecessor_is_ready():
    assert steps(stateful_set()) == [(Action.CREATE, 0)]
    assert steps(stateful_set(), pod(0, "Pending", ready=False)) == []
    assert steps(stateful_set(), pod(0, ready=False)) == []
    assert steps(stateful_set(), pod(0)) == [(Action.CREATE, 1)]
    assert steps(stateful_set(), pod(0), pod(1), pod(2)) == []


def test_a_pod_that_is_ending_is_waited_for_whatever_its_node_says():
    assert steps(stateful_set(1), pod(0, deleting=True)) == []
    assert steps(stateful_set(1), pod(0, "Failed", deleting=True)) == []


def test_a_pod_that_has_failed_is_deleted_and_then_created_anew():
    assert steps(stateful_set(1), pod(0, "Failed", ready=False)) == [(Action.DELETE, 0)]


def test_scaling_down_goes_from_the_top_one_at_a_time():
    assert steps(stateful_set(1), pod(0), pod(1), pod(2)) == [(Action.DELETE, 2)]
    assert steps(stateful_set(1), pod(0), pod(1), pod(2, deleting=True)) == []
    assert steps(stateful_set(1), pod(0), pod(1, deleting=True), pod(2)) == []
    assert steps(stateful_set(1), pod(0, ready=False), pod(1)) == [], "not while one that stays is not ready"


def test_scaling_down_stops_while_several_pods_that_go_are_not_ready():
    """Upstream's processCondemned: an unhealthy pod goes only if it is the first unhealthy one."""
    broken = [pod(ordinal, ready=False) for ordinal in range(3)]
    assert steps(stateful_set(0), *broken) == []
    assert steps(stateful_set(0), pod(0, ready=False), pod(1), pod(2, ready=False)) == []
    assert steps(stateful_set(0), pod(0), pod(1), pod(2, ready=False)) == [(Action.DELETE, 2)]
    assert steps(stateful_set(0), pod(0, ready=False), pod(1)) == [(Action.DELETE, 1)]
    assert steps(stateful_set(0), pod(0, ready=False)) == [(Action.DELETE, 0)]


def test_parallel_creates_and_deletes_all_at_once():
    parallel = {"pod_management_policy": "Parallel"}
    assert steps(stateful_set(2, **parallel)) == [(Action.CREATE, 0), (Action.CREATE, 1)]
    assert steps(stateful_set(0, **parallel), pod(0), pod(1)) == [(Action.DELETE, 1), (Action.DELETE, 0)]


def test_with_parallel_a_pod_that_cannot_be_made_keeps_none_that_nobody_wants():
    """The name may be taken by a pod of another set, on a node that does not answer."""
    found = steps(stateful_set(1, pod_management_policy="Parallel"), pod(1))
    assert found == [(Action.DELETE, 1), (Action.CREATE, 0)]


def test_an_update_rolls_from_the_top_each_after_the_one_before_is_ready():
    old = [pod(0), pod(1), pod(2)]
    assert steps(stateful_set(), *old, revision="r2") == [(Action.DELETE, 2)]
    assert steps(stateful_set(), *old[:2], pod(2, revision="r2"), revision="r2") == [(Action.DELETE, 1)]
    assert steps(stateful_set(), *old[:2], pod(2, revision="r2", ready=False), revision="r2") == []


def test_a_partition_and_on_delete_hold_an_update_back():
    partition = UpdateStrategy(rolling_update=RollingUpdate(partition=2))
    assert steps(stateful_set(update_strategy=partition), pod(0), pod(1), pod(2), revision="r2") == [
        (Action.DELETE, 2)
    ]
    done = pod(2, revision="r2")
    assert steps(stateful_set(update_strategy=partition), pod(0), pod(1), done, revision="r2") == []
    none = UpdateStrategy(rolling_update=RollingUpdate(partition=-1))
    fresh = pod(1, revision="r2")
    assert steps(stateful_set(2, update_strategy=none), pod(0), fresh, revision="r2") == [(Action.DELETE, 0)]
    assert steps(stateful_set(1, update_strategy=none), pod(0), revision="r2") == [(Action.DELETE, 0)]
    on_delete = UpdateStrategy(type="OnDelete")
    assert steps(stateful_set(update_strategy=on_delete), pod(0), pod(1), pod(2), revision="r2") == []


def test_several_at_once_where_so_many_may_be_unavailable():
    two = UpdateStrategy(rolling_update=RollingUpdate(max_unavailable=2))
    old = [pod(0), pod(1), pod(2)]
    assert steps(stateful_set(update_strategy=two), *old, revision="r2") == [
        (Action.DELETE, 2),
        (Action.DELETE, 1),
    ]
    coming = pod(2, revision="r2", ready=False)
    both = {"update_strategy": two, "pod_management_policy": "Parallel"}
    assert steps(stateful_set(**both), *old[:2], coming, revision="r2") == [(Action.DELETE, 1)]


def test_a_pod_that_is_unavailable_anywhere_counts_for_an_update():
    """Found by upstream's tables: a pod below the others that was ending did not count."""
    two = UpdateStrategy(rolling_update=RollingUpdate(max_unavailable=2))
    both = {"update_strategy": two, "pod_management_policy": "Parallel"}
    ending = pod(0, deleting=True)
    assert steps(stateful_set(**both), ending, pod(1), pod(2), revision="r2") == [(Action.DELETE, 2)]
    assert steps(stateful_set(**both), ending, pod(1, deleting=True), pod(2), revision="r2") == []


def test_a_broken_pod_of_the_old_template_does_not_keep_the_new_one_away():
    """Upstream waits for it for ever (kubernetes issue 67250), until a person deletes it."""
    broken = pod(1, "Pending", ready=False, waiting="CrashLoopBackOff")
    assert steps(stateful_set(2), pod(0), broken, revision="r1") == []
    assert steps(stateful_set(2), pod(0), broken, revision="r2") == [(Action.DELETE, 1)]


def test_a_broken_pod_of_the_old_template_goes_also_while_pods_after_it_are_missing():
    broken = pod(1, "Pending", ready=False, waiting="CrashLoopBackOff")
    assert steps(stateful_set(3), pod(0), broken, revision="r1") == []
    assert steps(stateful_set(3), pod(0), broken, revision="r2") == [(Action.DELETE, 1)]
    starting = pod(1, "Pending", ready=False, waiting="ContainerCreating")
    assert steps(stateful_set(2), pod(0), starting, revision="r2") == []


def test_one_broken_container_makes_a_pod_broken():
    broken = pod(0, "Pending", ready=False, waiting="CrashLoopBackOff")
    sidecar = ContainerStatus(name="sidecar", state=ContainerState())
    statuses = (sidecar, *broken.status.container_statuses)
    both = replace(broken, status=replace(broken.status, container_statuses=statuses))
    assert steps(stateful_set(1), both, revision="r2") == [(Action.DELETE, 0)]


def test_with_parallel_an_old_pod_that_is_not_ready_is_replaced_by_an_update():
    assert steps(stateful_set(1, pod_management_policy="Parallel"), pod(0, ready=False), revision="r2") == [
        (Action.DELETE, 0)
    ]


def test_a_pod_must_have_been_ready_for_long_enough():
    assert steps(stateful_set(2, min_ready_seconds=30), pod(0)) == [(Action.CREATE, 1)]
    assert steps(stateful_set(2, min_ready_seconds=31), pod(0)) == []


def test_below_the_partition_a_pod_is_made_of_the_revision_before_the_update():
    held_back = UpdateStrategy(rolling_update=RollingUpdate(partition=2))
    halfway = StatefulSet(
        spec=StatefulSetSpec(replicas=3, update_strategy=held_back),
        status=StatefulSetStatus(current_revision="old"),
    )
    assert [revision_for(halfway, ordinal, "new") for ordinal in range(3)] == ["old", "old", "new"]
    on_delete = StatefulSet(
        spec=StatefulSetSpec(update_strategy=UpdateStrategy(type="OnDelete")), status=halfway.status
    )
    assert revision_for(on_delete, 0, "new") == "new"


def test_a_set_that_has_had_no_revision_before_makes_all_pods_of_the_new_one():
    held_back = UpdateStrategy(rolling_update=RollingUpdate(partition=2))
    assert revision_for(stateful_set(update_strategy=held_back), 0, "new") == "new"


def test_a_partition_means_nothing_to_a_set_that_is_not_rolled():
    on_delete = UpdateStrategy(type="OnDelete", rolling_update=RollingUpdate(partition=2))
    before = StatefulSet(
        spec=StatefulSetSpec(replicas=3, update_strategy=on_delete),
        status=StatefulSetStatus(current_revision="old"),
    )
    assert revision_for(before, 0, "new") == "new"


@pytest.mark.parametrize(("given", "most"), [(None, 1), (1, 1), (2, 2), ("10%", 1), ("60%", 1), ("70%", 2)])
def test_an_update_makes_as_many_pods_unavailable_as_it_may_and_at_least_one(given: Any, most: int):
    """A share of the pods is rounded down, as upstream does."""
    strategy = UpdateStrategy(rolling_update=RollingUpdate(max_unavailable=given))
    found = steps(stateful_set(update_strategy=strategy), pod(0), pod(1), pod(2), revision="r2")
    assert found == [(Action.DELETE, 2), (Action.DELETE, 1)][:most]


def test_ordinals_may_start_elsewhere():
    assert steps(stateful_set(2, ordinals=Ordinals(start=5)), pod(5)) == [(Action.CREATE, 6)]


def test_nothing_is_done_for_a_set_that_is_being_deleted():
    assert steps(stateful_set(deleting=True)) == []


def test_only_the_sets_own_names_have_ordinals():
    named = {
        name: ordinal_of(stateful_set(), Pod(metadata=ObjectMeta(name=name)))
        for name in ("app-7", "app-x", "b-1")
    }
    assert named == {"app-7": 7, "app-x": None, "b-1": None}


PODS = st.dictionaries(
    st.integers(0, 4),
    st.builds(
        lambda phase, ready, deleting, revision: pod(
            0, phase, ready=ready, deleting=deleting, revision=revision
        ),
        st.sampled_from(["Pending", "Running", "Failed", "Succeeded"]),
        st.booleans(),
        st.booleans(),
        st.sampled_from(["r1", "r2"]),
    ),
)
POLICIES = st.sampled_from(["OrderedReady", "Parallel"])


@given(PODS, st.integers(0, 4), POLICIES)
def test_an_identity_is_given_only_where_no_pod_has_it_and_nothing_is_deleted_twice(
    pods: dict[int, Pod], replicas: int, policy: str
):
    for step in decide(stateful_set(replicas, pod_management_policy=policy), pods, "r2", NOW):
        if step.action is Action.CREATE:
            assert step.ordinal not in pods
            assert step.ordinal < replicas
        else:
            assert not pods[step.ordinal].deleting


@given(PODS, st.integers(0, 4))
def test_ordered_means_one_change_at_a_time(pods: dict[int, Pod], replicas: int):
    assert len(decide(stateful_set(replicas), pods, "r2", NOW)) <= 1


def test_a_pod_on_its_way_out_is_not_ready():
    assert [
        is_ready(each) for each in (pod(0), pod(0, deleting=True), pod(0, ready=False), pod(0, "Pending"))
    ] == [
        True,
        False,
        False,
        False,
    ]
