"""Stable identities: in order, one change at a time, and never two pods of one name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.statefulset.decide import (
    Action,
    decide,
    is_ready,
    ordinal_of,
    revision_for,
)
from mooring.controllers.statefulset.identity_objects import (
    claim_bodies,
    claim_owners,
    pod_body,
)
from mooring.kube.objects import (
    ClaimRetentionPolicy,
    Condition,
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectMeta,
    Ordinals,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    RollingUpdate,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    UpdateStrategy,
)
from mooring.kube.revisions import REVISION, revision_name


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
    assert [is_ready(each) for each in (pod(0), pod(0, deleting=True), pod(0, ready=False))] == [
        True,
        False,
        False,
    ]


# --- bodies

TEMPLATE = {
    "metadata": {"labels": {"app": "app"}},
    "spec": {
        "containers": [],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
    },
}
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def test_a_pods_body_has_name_labels_owner_and_the_identitys_claim():
    body = pod_body(stateful_set(template=TEMPLATE, volume_claim_templates=(CLAIM,)), 2, "rev", TEMPLATE)
    assert body["metadata"]["name"] == "app-2"
    assert body["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "2"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u"
    volumes = {each["name"]: each for each in body["spec"]["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "data-app-2"}, (
        "goes before the template's own"
    )
    assert "emptyDir" in volumes["tmp"]


def test_claims_belong_to_the_identity():
    (body,) = claim_bodies(stateful_set(volume_claim_templates=(CLAIM,)), 2)
    assert body["metadata"]["name"] == "data-app-2"
    assert "ownerReferences" not in body["metadata"], "they outlive the set"


def test_the_revision_is_named_after_the_templates_content():
    one, same = stateful_set(template=TEMPLATE), stateful_set(5, template=dict(reversed(TEMPLATE.items())))
    assert revision_name(one) == revision_name(same)
    assert revision_name(one) != revision_name(stateful_set(template={}))


SET = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="app", uid="u")
POD = OwnerReference(api_version="v1", kind="Pod", name="app-1", uid="p")
STRANGER = OwnerReference(api_version="example.com/v1", kind="Backup", name="b", uid="b")


@pytest.mark.parametrize(
    ("when_deleted", "when_scaled", "condemned", "expected"),
    [
        ("Retain", "Retain", False, []),
        ("Retain", "Retain", True, []),
        ("Delete", "Retain", False, ["u"]),
        ("Delete", "Retain", True, ["u"]),
        ("Retain", "Delete", False, []),
        ("Retain", "Delete", True, ["p"]),
        ("Delete", "Delete", False, ["u"]),
        ("Delete", "Delete", True, ["p"]),
    ],
)
@pytest.mark.parametrize("held", [(), (SET,), (POD,), (STRANGER, POD)])
def test_a_claim_goes_with_whom_the_retention_policy_says(
    when_deleted: str,
    when_scaled: str,
    condemned: bool,
    expected: list[str],
    held: tuple[OwnerReference, ...],
):
    policy = ClaimRetentionPolicy(when_deleted=when_deleted, when_scaled=when_scaled)
    of_set = stateful_set(persistent_volume_claim_retention_policy=policy)
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name="data-app-1", owner_references=held))
    mine = Pod(metadata=ObjectMeta(name="app-1", uid="p"))
    owners = claim_owners(of_set, claim, "app-1", mine, condemned)
    now = [each.uid for each in held] if owners is None else [each["uid"] for each in owners]
    assert [uid for uid in now if uid != "b"] == expected
    assert ("b" in now) == (STRANGER in held), "other owners are left alone"


def owners_of(*held: OwnerReference) -> list[dict[str, Any]] | None:
    """What becomes of the owners of a claim that the set is to own."""
    policy = ClaimRetentionPolicy(when_deleted="Delete", when_scaled="Retain")
    of_set = stateful_set(persistent_volume_claim_retention_policy=policy)
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name="data-app-1", owner_references=held))
    mine = Pod(metadata=ObjectMeta(name="app-1", uid="p"))
    return claim_owners(of_set, claim, "app-1", mine, condemned=False)


def test_a_claim_that_goes_with_a_former_pod_or_set_is_left_to_go():
    assert owners_of(replace(POD, uid="former")) is None
    assert owners_of(replace(SET, uid="former")) is None


def test_a_claim_of_another_controller_gets_no_second_one():
    other = replace(STRANGER, controller=True)
    assert owners_of(other) is None
    assert [each["uid"] for each in owners_of(other, POD) or []] == ["b"]


def test_a_claim_keeps_other_pods_as_owners():
    other = replace(POD, name="backup", uid="backup")
    assert [each["uid"] for each in owners_of(other) or []] == ["backup", "u"]


def test_the_owner_of_a_claim_is_its_controller():
    [owner] = owners_of(replace(SET, controller=False)) or []
    assert (owner["uid"], owner["controller"]) == ("u", True)
