"""What the status of a workload should say in the end (L17)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.kube.objects import Pod, StatefulSet
from mooring.simulation.checks.statuses import of_stateful_set

SINCE = "2030-01-01T00:00:00Z"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}]}


def pod(**more: Any) -> Pod:
    metadata = {"labels": {"controller-revision-hash": "new"}, **more}
    return msgspec.convert({"metadata": metadata, "status": READY}, Pod)


def stateful_set(partition: int) -> StatefulSet:
    rolling = {"rollingUpdate": {"partition": partition}}
    revisions = {"updateRevision": "new", "currentRevision": "old"}
    return msgspec.convert({"spec": {"updateStrategy": rolling}, "status": revisions}, StatefulSet)


@pytest.mark.parametrize(
    ("partition", "current", "of_current"),
    [(0, "new", 1), (1, "old", 0)],
)
def test_a_pod_that_is_being_deleted_is_there_and_of_no_revision(
    partition: int, current: str, of_current: int
):
    """Found by the simulation (seed 20525 of the swarm)."""
    should = of_stateful_set(stateful_set(partition), [pod(), pod(deletionTimestamp="t")])
    assert should["replicas"] == 2
    assert should["updated_replicas"] == 1
    assert (should["current_revision"], should["current_replicas"]) == (current, of_current)


@pytest.mark.parametrize("partition", [0, 1])
def test_pods_that_stay_are_all_of_a_revision(partition: int):
    should = of_stateful_set(stateful_set(partition), [pod(), pod()])
    assert (should["replicas"], should["updated_replicas"], should["current_replicas"]) == (2, 2, 2)
    assert should["current_revision"] == "new"
