"""What is said of a namespace that is not gone yet."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mooring.kube.objects import (
    Condition,
    Namespace,
    NamespaceStatus,
    Node,
    NodeStatus,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
)
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.cause import Cause
from mooring.why.explain import explain, stuck
from mooring.why.snapshot import Snapshot

THEN = "2030-01-01T00:00:00Z"
SILENT = Node(
    metadata=ObjectMeta(name="a"), status=NodeStatus(conditions=(Condition(type="Ready", status="Unknown"),))
)


def of_team(name: str, deleted: str | None = THEN) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="team", uid=name, deletion_timestamp=deleted)


POD = Pod(metadata=of_team("web-0"), spec=PodSpec(node_name="a"))


def known(*held: Pod | PersistentVolumeClaim, deleted: str | None = THEN, **conditions: str) -> Snapshot:
    said = tuple(
        Condition(type=kind, status="True", reason="Because", message=words)
        for kind, words in conditions.items()
    )
    team = Namespace(
        metadata=ObjectMeta(name="team", deletion_timestamp=deleted), status=NamespaceStatus(conditions=said)
    )
    return Snapshot(
        PluginManager([], ControllerVolumeHost(now=lambda: datetime(2030, 1, 1, tzinfo=UTC))),
        pods={each.key: each for each in held if isinstance(each, Pod)},
        claims={each.key: each for each in held if isinstance(each, PersistentVolumeClaim)},
        volumes={},
        classes={},
        nodes={"a": SILENT},
        attachments={},
        drivers={},
        csi_nodes={},
        namespaces={"team": team},
        fences={},
        events={},
    )


def why(*held: Pod | PersistentVolumeClaim, **conditions: str) -> Cause:
    return explain("namespace/team", "default", known(*held, **conditions))


def test_nothing_is_wrong_with_a_namespace_that_is_not_being_deleted():
    assert explain("ns/team", "default", known(POD, deleted=None)).ok


def test_one_that_a_lost_node_holds_names_the_pod_and_the_node():
    elsewhere = Pod(metadata=ObjectMeta(name="other", namespace="default"), spec=PodSpec(node_name="a"))
    cause = why(POD, elsewhere)
    assert cause.about == "ns/team"
    assert cause.reason.message == "namespace team is being deleted, and holds 1 pod still"
    assert [each.about for each in cause.causes] == ["pod/team/web-0"]
    assert [each.about for each in cause.roots] == ["node/a"]
    assert "confirm-dead a" in next(cause.roots).next_step


def test_claims_are_explained_by_the_pods_that_use_them_or_by_themselves():
    claim = PersistentVolumeClaim(metadata=of_team("data"))
    cause = why(claim)
    assert [each.about for each in cause.causes] == ["pvc/team/data"]
    assert "1 claim" in cause.reason.message


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("NamespaceDeletionDiscoveryFailure", "kubectl get apiservices"),
        ("NamespaceDeletionContentFailure", "webhook"),
        ("NamespaceFinalizersRemaining", "finalizer"),
        ("NamespaceContentRemaining", "api-resources"),
    ],
)
def test_without_pods_and_claims_its_conditions_tell(kind: str, step: str):
    cause = why(**{kind: "boats.example.com has 1 resource instances"})
    assert cause.reason == (
        "Because",
        "namespace team is being deleted: boats.example.com has 1 resource instances",
    )
    assert step in cause.next_step


def test_the_first_cause_is_told_where_several_conditions_are_true():
    cause = why(NamespaceContentRemaining="left", NamespaceDeletionDiscoveryFailure="not found")
    assert cause.reason.message.endswith("not found")


def test_one_that_holds_nothing_waits_for_its_controller():
    assert why().reason.code == "Terminating"


def test_it_is_among_what_is_stuck():
    assert "ns/team" in [each.about for each in stuck(known(POD))]
