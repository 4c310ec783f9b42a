"""What workloads' controllers have made is as its template says (L21): found where it is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet
from mooring.simulation.checks.templates import of_claims, of_pods

TOLD, LABELS = {"made-for": "db"}, {"app": "db", "tier": "back"}
IDENTITY = {"statefulset.kubernetes.io/pod-name": "db-0", "apps.kubernetes.io/pod-index": "0"}
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": True}
MARKED = {"labels": LABELS, "annotations": TOLD}
CLAIM = {"metadata": {"name": "data", **MARKED}, "spec": {"accessModes": ["ReadWriteOnce"]}}
SET = msgspec.convert(
    {
        "metadata": {"name": "db", "namespace": "default", "uid": "s"},
        "spec": {
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": MARKED, "spec": {"containers": [{"name": "main", "command": ["run"]}]}},
            "volumeClaimTemplates": [CLAIM],
        },
        "status": {"updateRevision": "r"},
    },
    StatefulSet,
)


DIVIDED = msgspec.convert({"rollingUpdate": {"partition": 1}}, type(SET.spec.update_strategy))


def pod(command: str = "run", container: str = "main", name: str = "db-0", **more: Any) -> Pod:
    labels = {**LABELS, **IDENTITY, "controller-revision-hash": "r"}
    metadata = {"name": name, "namespace": "default", "labels": labels, "annotations": TOLD}
    body = {
        "metadata": metadata | {"ownerReferences": [OWNER]} | more,
        "spec": {"containers": [{"name": container, "command": [command]}]},
    }
    return msgspec.convert(body, Pod)


def claim(mode: str = "ReadWriteOnce", **more: Any) -> PersistentVolumeClaim:
    metadata = {"name": "data-db-0", "namespace": "default", **MARKED}
    return msgspec.convert(
        {"metadata": metadata | more, "spec": {"accessModes": [mode]}}, PersistentVolumeClaim
    )


def without(labels: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key != name}


def test_a_pod_as_its_template_says_is_no_violation_and_another_set_s_pod_is_none_of_its_own():
    assert [*of_pods(SET, [pod()])] == []
    assert [*of_pods(SET, [pod(name="web-0", labels={}, ownerReferences=[])])] == []
    assert [*of_pods(SET, [pod(labels={}, deletionTimestamp="t")])] == [], "it goes"


@pytest.mark.parametrize("label", ["tier", *IDENTITY, "controller-revision-hash"])
def test_a_pod_without_one_of_its_labels_is_found(label: str):
    assert len([*of_pods(SET, [pod(labels=without({**pod().metadata.labels}, label))])]) == 1


def test_a_pod_below_the_partition_is_of_the_revision_that_it_was_when_it_was_left_as_it_is():
    divided = replace(SET, spec=replace(SET.spec, update_strategy=DIVIDED))
    labels = {**LABELS, **IDENTITY, "controller-revision-hash": "an earlier one"}
    assert [*of_pods(divided, [pod("fail", labels=labels)])] == []
    assert len([*of_pods(divided, [pod(labels=without(labels, "tier"))])]) == 1
    assert len([*of_pods(SET, [pod(labels=labels)])]) == 1


def test_a_pod_without_its_annotations_its_owner_or_its_containers_is_found():
    for wrong in (pod(annotations={}), pod(ownerReferences=[]), pod("fail"), pod(container="other")):
        assert len([*of_pods(SET, [wrong])]) == 1


def test_a_claim_is_as_its_template_says():
    assert [*of_claims(SET, [claim()])] == []
    assert [*of_claims(SET, [claim(labels={}, deletionTimestamp="t")])] == [], "it goes"
    for wrong in (claim(labels={"app": "db"}), claim(annotations={}), claim("ReadWriteMany")):
        assert len([*of_claims(SET, [wrong])]) == 1


@pytest.mark.parametrize("policy, goes_with", [("Retain", []), ("Delete", [OWNER])])
def test_a_claim_goes_with_what_the_retention_policy_says(policy: str, goes_with: list[Any]):
    kept = msgspec.structs.replace(SET.spec.persistent_volume_claim_retention_policy, when_deleted=policy)
    spec = msgspec.structs.replace(SET.spec, persistent_volume_claim_retention_policy=kept)
    of_policy = msgspec.structs.replace(SET, spec=spec)
    pods = [{"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "p"}]
    assert [*of_claims(of_policy, [claim(ownerReferences=goes_with)])] == []
    for wrong in ([] if goes_with else [OWNER], pods, [*goes_with, *pods]):
        assert len([*of_claims(of_policy, [claim(ownerReferences=wrong)])]) == 1
