"""What is said of StatefulSets and Deployments whose pods are not all there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.kube.objects import (
    Condition,
    ContainerState,
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    Event,
    Node,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    ReplicaSet,
    ReplicaSetSpec,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    UpdateStrategy,
)
from mooring.kube.revisions import REVISION
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.cause import Cause
from mooring.why.explain import explain, stuck
from mooring.why.snapshot import Snapshot

READY = (Condition(type="Ready", status="True"),)
NODE = Node(metadata=ObjectMeta(name="a"), status=NodeStatus(conditions=READY))
SILENT = Node(
    metadata=ObjectMeta(name="b"), status=NodeStatus(conditions=(Condition(type="Ready", status="Unknown"),))
)
OWNER = (OwnerReference(kind="X", name="web", uid="owner", controller=True),)


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", **more)


def pod(
    name: str,
    *,
    ready: bool = True,
    on: str = "a",
    gone: bool = False,
    revision: str = "new",
    of: str = "owner",
) -> Pod:
    owner = (OwnerReference(kind="X", name="web", uid=of, controller=True),)
    running = ContainerState(running=ContainerStateRunning())
    broken = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    status = PodStatus(
        phase="Running" if ready else "Pending",
        conditions=READY if ready else (),
        container_statuses=(ContainerStatus(name="main", state=running if ready else broken),),
    )
    metadata = meta(
        name,
        owner_references=owner,
        labels={REVISION: revision},
        deletion_timestamp="2030-01-01T00:00:00Z" if gone else None,
    )
    return Pod(metadata=metadata, spec=PodSpec(node_name=on), status=status)


def stateful_set(replicas: int, **spec: Any) -> StatefulSet:
    return StatefulSet(
        metadata=ObjectMeta(name="web", namespace="default", uid="owner"),
        spec=StatefulSetSpec(replicas=replicas, **spec),
        status=StatefulSetStatus(update_revision="new"),
    )


def deployment(
    replicas: int, available: int, *, conditions: tuple[Condition, ...] = (), **spec: Any
) -> Deployment:
    status = DeploymentStatus(
        replicas=replicas, updated_replicas=replicas, available_replicas=available, conditions=conditions
    )
    return Deployment(
        metadata=ObjectMeta(name="web", namespace="default", uid="owner"),
        spec=DeploymentSpec(replicas=replicas, **spec),
        status=status,
    )


def known(owner: StatefulSet | Deployment, *pods: Pod, events: tuple[Event, ...] = ()) -> Snapshot:
    sets = ReplicaSet(metadata=meta("web-1", owner_references=OWNER), spec=ReplicaSetSpec())
    return Snapshot(
        PluginManager([], ControllerVolumeHost(now=lambda: datetime(2030, 1, 1, tzinfo=UTC))),
        pods={each.key: each for each in pods},
        claims={},
        volumes={},
        classes={},
        nodes={"a": NODE, "b": SILENT},
        attachments={},
        drivers={},
        csi_nodes={},
        namespaces={},
        fences={},
        events={each.involved_object.uid: (each,) for each in events},
        stateful_sets={owner.key: owner} if isinstance(owner, StatefulSet) else {},
        deployments={owner.key: owner} if isinstance(owner, Deployment) else {},
        replica_sets={sets.key: sets},
    )


def why(owner: StatefulSet | Deployment, *pods: Pod, events: tuple[Event, ...] = ()) -> Cause:
    kind = "statefulset" if isinstance(owner, StatefulSet) else "deployment"
    return explain(f"{kind}/web", "default", known(owner, *pods, events=events))


def refused(uid: str) -> Event:
    return Event(
        type="Warning",
        reason="FailedCreate",
        message="exceeded quota",
        involved_object=ObjectReference(uid=uid),
    )


def test_nothing_is_wrong_with_a_set_whose_pods_are_ready():
    cause = why(stateful_set(2), pod("web-0"), pod("web-1"))
    assert cause.ok
    assert cause.reason.message == "statefulset default/web: ready pods: 2 of 2"


def test_the_pod_that_holds_the_others_up_is_named_and_explained():
    cause = why(stateful_set(3), pod("web-0"), pod("web-1", ready=False))
    assert cause.reason.message == (
        "statefulset default/web: ready pods: 1 of 3; web-1 is not ready, and web-2 is made only once it is ready "
        "(OrderedReady)"
    )
    assert [(each.about, each.reason.code) for each in cause.causes] == [
        ("pod/default/web-1", "CrashLoopBackOff")
    ]


def test_a_parallel_set_holds_nothing_up():
    assert (
        "OrderedReady"
        not in why(
            stateful_set(3, pod_management_policy="Parallel"), pod("web-0", ready=False)
        ).reason.message
    )


def test_an_identity_that_a_silent_node_holds_leads_to_that_node():
    cause = why(stateful_set(1), pod("web-0", on="b", gone=True))
    assert [each.about for each in cause.roots] == ["node/b"]


def test_a_pod_that_cannot_be_made_says_what_refused_it():
    cause = why(stateful_set(1), events=(refused("owner"),))
    assert "web-0 does not exist" in cause.reason.message
    assert [each.reason.message for each in cause.causes] == ["exceeded quota"]


def test_a_pod_too_many_is_named():
    cause = why(stateful_set(1), pod("web-0"), pod("web-1", on="b", gone=True))
    assert cause.reason.code == "ScalingDown"
    assert [each.about for each in cause.roots] == ["node/b"]


@pytest.mark.parametrize(("strategy", "code"), [("RollingUpdate", "RollingOut"), ("OnDelete", "Outdated")])
def test_pods_of_an_older_template_are_named(strategy: str, code: str):
    cause = why(
        stateful_set(2, update_strategy=UpdateStrategy(type=strategy)),
        pod("web-0", revision="old"),
        pod("web-1"),
    )
    assert cause.reason.code == code
    assert "web-0 of an older template" in cause.reason.message


def test_pods_of_others_are_not_the_sets():
    assert "ready pods: 0 of 1" in why(stateful_set(1), pod("web-0", of="other")).reason.message


def test_nothing_is_wrong_with_a_deployment_whose_pods_are_available():
    assert why(deployment(1, 1)).ok


def test_a_deployment_is_explained_by_its_pods_that_are_not_ready():
    cause = why(deployment(2, 1), pod("web-1-x", of="uid-web-1"), pod("web-1-y", ready=False, of="uid-web-1"))
    assert cause.reason == (
        "RollingOut",
        "deployment default/web: available pods: 1 of 2; its pods are replaced or started",
    )
    assert [each.about for each in cause.causes] == ["pod/default/web-1-y"]


def test_a_deployment_whose_pods_are_refused_says_by_what():
    failed = Condition(type="ReplicaFailure", status="True", reason="FailedCreate", message="exceeded quota")
    cause = why(deployment(1, 0, conditions=(failed,)), events=(refused("uid-web-1"),))
    assert cause.reason.code == "FailedCreate"
    assert [each.about for each in cause.causes] == ["replicaset/default/web-1"]


def test_a_rollout_that_takes_too_long_says_so():
    late = Condition(
        type="Progressing", status="False", reason="ProgressDeadlineExceeded", message="timed out"
    )
    assert why(deployment(1, 0, conditions=(late,))).reason == (
        "ProgressDeadlineExceeded",
        "deployment default/web: available pods: 0 of 1; timed out",
    )


def test_a_paused_rollout_says_how_it_goes_on():
    assert "rollout resume" in why(deployment(1, 0, paused=True)).next_step


def test_sets_are_among_what_is_stuck():
    both = [each.about for each in stuck(known(stateful_set(1)))]
    assert "sts/default/web" in both
    assert "deploy/default/web" in [each.about for each in stuck(known(deployment(1, 0)))]
