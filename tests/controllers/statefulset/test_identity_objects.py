"""The objects of one identity: the pod, its claims, and who owns these."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.controllers.statefulset.identity_objects import claim_bodies, claim_owners, pod_body
from mooring.kube.objects import (
    ClaimRetentionPolicy,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StatefulSetSpec,
)
from mooring.kube.revisions import revision_name


def stateful_set(replicas: int = 3, **spec: Any) -> StatefulSet:
    metadata = ObjectMeta(name="app", namespace="ns", uid="u")
    return StatefulSet(metadata=metadata, spec=StatefulSetSpec(replicas=replicas, **spec))


TEMPLATE = {
    "metadata": {"labels": {"app": "app"}},
    "spec": {
        "containers": [],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
    },
}
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def test_a_pods_body_is_the_templates_with_name_labels_owner_and_the_identitys_claim():
    annotated = {**TEMPLATE, "metadata": {"labels": {"app": "app"}, "annotations": {"a": "b"}}}
    of_set = stateful_set(template=annotated, volume_claim_templates=(CLAIM,), service_name="service")
    assert pod_body(of_set, 2, "rev", annotated) == {
        "metadata": {
            "name": "app-2",
            "namespace": "ns",
            "labels": {
                "app": "app",
                "statefulset.kubernetes.io/pod-name": "app-2",
                "apps.kubernetes.io/pod-index": "2",
                "controller-revision-hash": "rev",
            },
            "annotations": {"a": "b"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": "app",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [],
            "hostname": "app-2",
            "subdomain": "service",
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-app-2"}},
            ],
        },
    }, "the claim goes before the template's own volume of that name"


@pytest.mark.parametrize("metadata", [None, {}, {"labels": None, "annotations": None}])
def test_a_pods_template_may_have_no_labels_and_no_volumes(metadata: dict[str, Any] | None):
    """Of a set whose selector only excludes labels."""
    body = pod_body(stateful_set(), 2, "rev", {"metadata": metadata, "spec": {"containers": []}})
    assert body["metadata"]["labels"].keys() == {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "controller-revision-hash",
    }
    assert (body["metadata"]["annotations"], body["spec"]["volumes"]) == ({}, [])


@pytest.mark.parametrize(
    ("given", "labels", "annotations"),
    [
        ({}, {"app": "app"}, {}),
        ({"labels": {"tier": "t", "app": "x"}}, {"tier": "t", "app": "app"}, {}),
        ({"annotations": {"a": "b"}}, {"app": "app"}, {"a": "b"}),
    ],
)
def test_a_claim_of_an_identity_has_the_labels_by_which_its_set_is_found(
    given: dict[str, Any], labels: dict[str, str], annotations: dict[str, str]
):
    """And no owner: it outlives the set."""
    template = {**CLAIM, "metadata": {"name": "data", **given}}
    of_set = stateful_set(
        volume_claim_templates=(template,), selector=LabelSelector(match_labels={"app": "app"})
    )
    assert claim_bodies(of_set, 2) == [
        {
            "metadata": {
                "name": "data-app-2",
                "namespace": "ns",
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [],
            },
            "spec": CLAIM["spec"],
        }
    ]


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
@pytest.mark.parametrize(
    "held",
    [
        (),
        (SET,),
        (POD,),
        (STRANGER, POD),
        (replace(SET, controller=True),),
        (replace(POD, controller=True), STRANGER),
    ],
)
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
