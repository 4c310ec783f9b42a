"""Second opinions about StatefulSets: no objection to what is right, one to each kind of wrong answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.statefulset.decide import Action, PodDecision, decide, revision_for
from mooring.controllers.statefulset.status import status_of
from mooring.kube.objects import (
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
from mooring.kube.reason import Reason
from mooring.simulation.checks.second_opinions.statefulsets import (
    of_claim_going,
    of_revision,
    of_status,
    of_steps,
    of_touched,
)

NOW = datetime(2030, 1, 1, 0, 0, 30, tzinfo=UTC)


def stateful_set(
    replicas: int = 3, *, deleting: bool = False, current: str = "old", **spec: Any
) -> StatefulSet:
    return StatefulSet(
        metadata=ObjectMeta(
            name="app", namespace="ns", uid="u", deletion_timestamp="t" if deleting else None
        ),
        spec=StatefulSetSpec(replicas=replicas, **spec),
        status=StatefulSetStatus(current_revision=current),
    )


def pod(
    ordinal: int, *, phase: str = "Running", ready: str = "True", since: str | None = "2030-01-01T00:00:20Z",
    deleting: bool = False, revision: str = "new", waiting: str | None = None,
) -> Pod:  # fmt: skip
    state = ContainerState(waiting=ContainerStateWaiting(reason=waiting) if waiting is not None else None)
    return Pod(
        metadata=ObjectMeta(
            name=f"app-{ordinal}",
            labels={"controller-revision-hash": revision},
            deletion_timestamp="t" if deleting else None,
        ),
        status=PodStatus(
            phase=phase,
            conditions=(Condition(type="Ready", status=ready, last_transition_time=since),),
            container_statuses=(ContainerStatus(name="main", state=state),),
        ),
    )


def update(partition: int = 0, most: int | str | None = None, kind: str = "RollingUpdate") -> UpdateStrategy:
    return UpdateStrategy(kind, RollingUpdate(partition, most))


def strategies(*most: int | str | None) -> st.SearchStrategy[UpdateStrategy]:
    kinds = st.sampled_from(("RollingUpdate", "RollingUpdate", "OnDelete"))
    return st.builds(update, st.integers(0, 3), st.sampled_from(most), kinds)


SETS = st.builds(
    stateful_set,
    st.integers(0, 5),
    deleting=st.sampled_from((False, False, False, True)),
    current=st.sampled_from(("", "old", "new")),
    pod_management_policy=st.sampled_from(("OrderedReady", "Parallel")),
    update_strategy=strategies(None, 1, 2, "50%", "1%"),
    min_ready_seconds=st.sampled_from((0, 9, 10, 11)),
    ordinals=st.sampled_from((None, Ordinals(0), Ordinals(2))),
)
WELL = st.builds(pod, st.just(0), revision=st.sampled_from(("old", "new")))
ANY = st.builds(
    pod,
    st.just(0),
    phase=st.sampled_from(("Running", "Running", "Running", "Pending", "Failed", "Succeeded", "")),
    ready=st.sampled_from(("True", "True", "False", "Unknown")),
    since=st.sampled_from((None, "2030-01-01T00:00:20Z")),
    deleting=st.sampled_from((False, False, True)),
    revision=st.sampled_from(("old", "new")),
    waiting=st.sampled_from((None, "", "ContainerCreating", "PodInitializing", "CrashLoopBackOff")),
)
PODS = st.dictionaries(st.integers(0, 6), WELL | WELL | ANY, max_size=6)


@given(SETS, PODS)
def test_what_is_decided_is_not_objected_to(given_set: StatefulSet, pods: dict[int, Pod]):
    assert [*of_steps(decide(given_set, pods, "new", NOW), given_set, pods, "new", NOW)] == []


C, D = Action.CREATE, Action.DELETE
PARALLEL: dict[str, Any] = {"pod_management_policy": "Parallel"}
OLD: dict[str, Any] = {"revision": "old"}
ILL: dict[str, Any] = {"ready": "False"}
STUCK: dict[str, Any] = {"waiting": "ErrImagePull", **ILL, **OLD}


def pods_of(*pods: Pod) -> dict[int, Pod]:
    return {int(each.name.removeprefix("app-")): each for each in pods}


@pytest.mark.parametrize(
    ("given_set", "pods", "right", "wrong"),
    [
        (stateful_set(1, deleting=True), [], [], [(C, 0)]),
        (stateful_set(3), [pod(0)], [(C, 1)], [(C, 1), (C, 2)]),
        (stateful_set(3), [pod(0, **ILL)], [], [(C, 1)]),
        (stateful_set(3), [pod(0, phase="Pending")], [], [(C, 1)]),
        (stateful_set(3), [pod(0, deleting=True)], [], [(C, 1)]),
        (stateful_set(3, min_ready_seconds=11), [pod(0)], [], [(C, 1)]),
        (stateful_set(3, min_ready_seconds=10), [pod(0)], [(C, 1)], []),
        (stateful_set(3, ordinals=Ordinals(1)), [], [(C, 1)], [(C, 0)]),
        (stateful_set(1), [pod(0, phase="Failed")], [(D, 0)], []),
        (stateful_set(1), [pod(0, phase="Succeeded", deleting=True)], [], [(D, 0)]),
        (stateful_set(1), [pod(0), pod(1), pod(2)], [(D, 2)], [(D, 2), (D, 1)]),
        (stateful_set(1), [pod(0), pod(1), pod(2)], [(D, 2)], [(D, 1)]),
        (stateful_set(1), [pod(0), pod(1), pod(2, deleting=True)], [], [(D, 1)]),
        (stateful_set(1), [pod(0, **ILL), pod(1)], [], [(D, 1)]),
        (stateful_set(0), [pod(0, **ILL), pod(1, **ILL)], [], [(D, 1)]),
        (stateful_set(0), [pod(0, **ILL), pod(1)], [(D, 1)], []),
        (stateful_set(0), [pod(0), pod(1, **ILL)], [(D, 1)], []),
        (stateful_set(2, **PARALLEL), [], [(C, 0), (C, 1)], [(C, 0)]),
        (stateful_set(2, **PARALLEL), [pod(3), pod(2)], [(D, 3), (D, 2), (C, 0), (C, 1)], [(C, 0), (C, 1)]),
        (stateful_set(1, **PARALLEL), [pod(0, **OLD), pod(1, deleting=True)], [], [(D, 0)]),
        (stateful_set(2, **PARALLEL), [pod(0, **OLD)], [(C, 1)], [(C, 1), (D, 0)]),
        (stateful_set(2), [pod(0, **OLD), pod(1, **OLD)], [(D, 1)], [(D, 0)]),
        (stateful_set(2), [pod(0, **OLD), pod(1, **OLD)], [(D, 1)], []),
        (stateful_set(2), [pod(0, **OLD), pod(1, **OLD)], [(D, 1)], [(D, 1), (D, 0)]),
        (stateful_set(1), [pod(0)], [], [(D, 0)]),
        (stateful_set(2), [pod(0), pod(1, **ILL, **OLD)], [], [(D, 1)]),
        (stateful_set(2), [pod(0), pod(1, **STUCK)], [(D, 1)], []),
        (stateful_set(2), [pod(0, **ILL), pod(1, **STUCK)], [(D, 1)], []),
        (stateful_set(2, **PARALLEL), [pod(0), pod(1, **ILL, **OLD)], [(D, 1)], []),
        (stateful_set(2, **PARALLEL), [pod(0, **OLD), pod(1, **ILL)], [], [(D, 0)]),
        (stateful_set(1, update_strategy=update(kind="OnDelete")), [pod(0, **OLD)], [], [(D, 0)]),
        (stateful_set(2, update_strategy=update(1)), [pod(0, **OLD), pod(1)], [], [(D, 0)]),
        (
            stateful_set(2, update_strategy=update(1)),
            [pod(0, **OLD), pod(1, **OLD)],
            [(D, 1)],
            [],
        ),
        (
            stateful_set(3, update_strategy=update(most="70%")),
            [pod(0, **OLD), pod(1, **OLD), pod(2, **OLD)],
            [(D, 2), (D, 1)],
            [(D, 2)],
        ),
        (
            stateful_set(3, update_strategy=update(most="30%")),
            [pod(0, **OLD), pod(1, **OLD), pod(2, **OLD)],
            [(D, 2)],
            [],
        ),
    ],
)
def test_a_step_too_many_too_few_or_another_one_is_objected_to(
    given_set: StatefulSet, pods: list[Pod], right: list[tuple[Action, int]], wrong: list[tuple[Action, int]]
):
    def objections(steps: list[tuple[Action, int]]) -> list[str]:
        answer = [PodDecision(action, Reason("Any", "words"), ordinal) for action, ordinal in steps]
        return [*of_steps(answer, given_set, pods_of(*pods), "new", NOW)]

    assert (objections(right), len(objections(wrong))) == ([], 1)


@given(SETS, PODS, st.booleans())
def test_a_status_is_not_objected_to(given_set: StatefulSet, by_ordinal: dict[int, Pod], one_goes: bool):
    pods = [
        replace(each, metadata=replace(each.metadata, uid=f"uid-{ordinal}"))
        for ordinal, each in by_ordinal.items()
    ]
    going = {"uid-1"} if one_goes else set[str]()
    answer = status_of(given_set, pods, "new", going, NOW)
    assert [*of_status(answer, given_set, pods, "new", going, NOW)] == []


READY_PODS = [pod(0), pod(1)]
RIGHT = StatefulSetStatus(
    replicas=2,
    ready_replicas=2,
    available_replicas=2,
    current_replicas=2,
    updated_replicas=2,
    current_revision="new",
    update_revision="new",
    collision_count=0,
)


@pytest.mark.parametrize(
    ("given_set", "pods", "right"),
    [
        (stateful_set(2), READY_PODS, {}),
        (stateful_set(2, min_ready_seconds=11), READY_PODS, {"available_replicas": 0}),
        (stateful_set(3), READY_PODS, {"current_revision": "old", "current_replicas": 0}),
        (
            stateful_set(2),
            [pod(0), pod(1, **ILL)],
            {"ready_replicas": 1, "available_replicas": 1, "current_revision": "old", "current_replicas": 0},
        ),
        (
            stateful_set(2),
            [pod(0), pod(1, **OLD)],
            {"updated_replicas": 1, "current_revision": "old", "current_replicas": 1},
        ),
        (
            stateful_set(1, current=""),
            [pod(0, deleting=True)],
            {
                "replicas": 1,
                "ready_replicas": 0,
                "available_replicas": 0,
                "current_replicas": 0,
                "updated_replicas": 0,
            },
        ),
    ],
)
def test_each_field_of_a_status_that_is_another_is_objected_to(
    given_set: StatefulSet, pods: list[Pod], right: dict[str, Any]
):
    answer = replace(RIGHT, **right)
    assert [*of_status(answer, given_set, pods, "new", (), NOW)] == []
    for field in msgspec.structs.fields(answer):
        wrong = replace(answer, **{field.name: "x" if field.type is str else 7})
        assert len([*of_status(wrong, given_set, pods, "new", (), NOW)]) == 1


@given(SETS, st.integers(0, 6))
def test_the_revision_of_a_pod_is_not_objected_to(given_set: StatefulSet, ordinal: int):
    assert [*of_revision(revision_for(given_set, ordinal, "new"), given_set, ordinal, "new")] == []


@pytest.mark.parametrize(
    ("given_set", "ordinal", "wrong"),
    [
        (stateful_set(update_strategy=update(2)), 1, "new"),
        (stateful_set(update_strategy=update(2)), 2, "old"),
        (stateful_set(update_strategy=update(1), ordinals=Ordinals(2)), 2, "new"),
        (stateful_set(update_strategy=update(2, kind="OnDelete")), 1, "old"),
        (stateful_set(update_strategy=update(2), current=""), 1, ""),
    ],
)
def test_a_pod_on_the_wrong_side_of_the_partition_is_objected_to(
    given_set: StatefulSet, ordinal: int, wrong: str
):
    assert [*of_revision(wrong, given_set, ordinal, "new")]


def owned(name: str, kind: str = "") -> Pod:
    owners = (OwnerReference(kind=kind, name="app", uid="u", controller=True),) if kind else ()
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", owner_references=owners))


SETS_THERE: Any = Mock(
    _sets=Mock(
        get={"ns/app": stateful_set()}.get,
        items=lambda: [stateful_set(volume_claim_templates=({"metadata": {"name": "data"}},))],
    )
)


@pytest.mark.parametrize(
    ("given_pod", "right"),
    [
        (owned("app-0", "StatefulSet"), {"ns/app"}),
        (owned("app-0", "ReplicaSet"), set[str]()),
        (owned("app-0"), {"ns/app"}),
        (owned("other-0"), set[str]()),
        (owned("app-x"), set[str]()),
    ],
)
def test_a_set_that_a_pod_marks_by_mistake_or_does_not_is_objected_to(given_pod: Pod, right: set[str]):
    assert [*of_touched(list(right), SETS_THERE, given_pod)] == []
    assert [*of_touched(list({"ns/app"} - right), SETS_THERE, given_pod)]


@pytest.mark.parametrize(
    ("name", "deleting", "answer", "objected"),
    [
        ("data-app-0", True, ["ns/app"], 0),
        ("data-app-0", True, [], 1),
        ("data-app-0", False, [], 0),
        ("data-app-0", False, ["ns/app"], 1),
        ("data-app-x", True, [], 0),
        ("logs-app-0", True, [], 0),
    ],
)
def test_a_set_that_is_not_told_of_the_end_of_its_claim_is_objected_to(
    name: str, deleting: bool, answer: list[str], objected: int
):
    metadata = ObjectMeta(name=name, namespace="ns", deletion_timestamp="t" if deleting else None)
    found = of_claim_going(answer, SETS_THERE, PersistentVolumeClaim(metadata=metadata))
    assert len([*found]) == objected
