"""A rollout keeps both of its bounds at every step, and ends."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from mooring.controllers.replicaset.rollout import (
    DESIRED,
    MAX,
    bounds,
    first_replicas,
    next_replicas,
    same_template,
)
from mooring.kube.objects import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ObjectMeta,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)


def deployment(
    replicas: int, surge: int | str = "25%", missing: int | str = "25%", **spec: Any
) -> Deployment:
    rolling = RollingUpdateDeployment(max_surge=surge, max_unavailable=missing)
    strategy = spec.pop("strategy", DeploymentStrategy(rolling_update=rolling))
    return Deployment(spec=DeploymentSpec(replicas=replicas, strategy=strategy, **spec))


def replica_set(name: str, replicas: int, available: int | None = None, **annotations: str) -> ReplicaSet:
    status = ReplicaSetStatus(
        replicas=replicas, available_replicas=replicas if available is None else available
    )
    return ReplicaSet(
        metadata=ObjectMeta(name=name, creation_timestamp="2030-01-01T00:00:00Z", annotations=annotations),
        spec=ReplicaSetSpec(replicas=replicas),
        status=status,
    )


RECREATE = {"strategy": DeploymentStrategy(type="Recreate")}


@pytest.mark.parametrize(
    ("replicas", "surge", "missing", "expected"),
    [
        (10, "25%", "25%", (13, 8)),
        (1, "25%", "25%", (2, 1)),
        (3, 0, 0, (3, 2)),
        (3, 0, "10%", (3, 2)),
        (2, 5, 7, (7, 0)),
        (0, 1, 1, (0, 0)),
    ],
)
def test_surge_rounds_up_and_unavailability_down_and_not_both_are_none(
    replicas: int, surge: int | str, missing: int | str, expected: tuple[int, int]
):
    assert bounds(deployment(replicas, surge, missing)) == expected


def test_recreate_ends_every_old_pod_before_the_first_new_one():
    old, new = replica_set("old", 3), replica_set("new", 0)
    assert next_replicas(deployment(3, **RECREATE), new, [old], old_pods=3) == {"old": 0}
    assert next_replicas(deployment(3, **RECREATE), new, [old], old_pods=0) == {"old": 0}, "they are to come"
    assert first_replicas(deployment(3, **RECREATE), [old], old_pods=0) == 0
    gone = replica_set("old", 0)
    assert next_replicas(deployment(3, **RECREATE), new, [gone], old_pods=1) == {}, "one is still ending"
    assert next_replicas(deployment(3, **RECREATE), new, [gone], old_pods=0) == {"new": 3}


def test_pods_that_are_not_available_anyway_are_given_up_first():
    broken, good = replica_set("broken", 2, 0), replica_set("good", 3)
    new = replica_set("new", 1)
    wanted = next_replicas(deployment(4, 0, 1), new, [good, broken], old_pods=5)
    assert wanted["broken"] == 0


def test_a_paused_rollout_stands_still():
    assert next_replicas(deployment(4, paused=True), replica_set("new", 1), [replica_set("old", 4)], 4) != {
        "new": 2
    }


def test_a_resize_in_the_middle_is_shared_out_by_size():
    annotations = {DESIRED: "10", MAX: "13"}
    new, old = replica_set("new", 5, **annotations), replica_set("old", 8, **annotations)
    wanted = next_replicas(deployment(20), new, [old], 8)
    assert sum(wanted.values()) == bounds(deployment(20)).most
    assert wanted["old"] > wanted["new"] > 5


def test_a_set_whose_size_is_annotated_with_no_number_is_resized_by_what_is_there():
    sizes = [{DESIRED: "4", MAX: "5"}, {DESIRED: "4", MAX: "many"}, {DESIRED: "4", MAX: "9" * 5000}]
    for size in sizes:
        old, new = replica_set("old", 2, **size), replica_set("new", 2, **size)
        found = next_replicas(deployment(8, "25%", 0), new, [old], 2)
        assert sum(found.values()) == 10


def test_the_template_of_a_replica_set_is_known_in_spite_of_its_hash():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
    hashed = {
        "metadata": {"creationTimestamp": None, "labels": {"a": "b", "pod-template-hash": "x"}},
        "spec": template["spec"],
    }
    made = ReplicaSet(spec=ReplicaSetSpec(template=hashed))
    assert same_template(Deployment(spec=DeploymentSpec(template=template)), made)
    other = {**template, "spec": {"containers": [{}]}}
    assert not same_template(Deployment(spec=DeploymentSpec(template=other)), made)


@settings(max_examples=300)
@given(st.integers(1, 12), st.integers(0, 4), st.integers(0, 4), st.randoms(use_true_random=False))
def test_a_rollout_keeps_both_promises_at_every_step_and_ends(
    replicas: int, surge: int, missing: int, dice: Any
):
    """Pods become available in any order; ReplicaSets follow their wanted sizes."""
    given_one = deployment(replicas, surge, missing)
    most, least = bounds(given_one)
    size = {"old": replicas, "new": 0}
    up = {"old": replicas, "new": 0}
    for _ in range(20 * replicas + 20):
        made = {name: replica_set(name, size[name], up[name]) for name in size}
        steps = next_replicas(given_one, made["new"], [made["old"]], up["old"])
        size |= steps
        assert sum(size.values()) <= most
        up = {name: min(up[name], size[name]) for name in size}
        assert sum(up.values()) >= min(least, replicas)
        waiting = size["new"] - up["new"]
        up["new"] += dice.randint(1, waiting) if waiting and (not steps or dice.random() < 0.5) else 0
        if size == up == {"old": 0, "new": replicas}:
            return
    raise AssertionError(f"it does not end: {size}, available {up}")
