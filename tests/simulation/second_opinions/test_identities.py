"""Second opinions about what the pods, claims and revisions of StatefulSets are made of."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from mooring.controllers.statefulset.decide import revision_for
from mooring.controllers.statefulset.identity_objects import claim_bodies, claim_owners, is_stale, pod_body
from mooring.kube.objects import (
    ClaimRetentionPolicy,
    ControllerRevision,
    DaemonSet,
    DaemonSetSpec,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    RollingUpdate,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    UpdateStrategy,
)
from mooring.kube.revisions import revision_body, same_template, template_of
from mooring.simulation.checks.second_opinions import identities

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "x", "apps.kubernetes.io/pod-index": "9"}, "annotations": {"a": "b"}},
    "spec": {
        "hostname": "other",
        "containers": [{"name": "main", "image": "new"}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "own", "emptyDir": {}}],
    },
}
BEFORE: dict[str, Any] = {"metadata": None, "spec": {"containers": [{"name": "main", "image": "old"}]}}
CLAIM: dict[str, Any] = {
    "metadata": {"name": "data", "labels": {"app": "mine", "b": "c"}},
    "spec": {"resources": {"requests": {"storage": "1Gi"}}},
}
LOGS: dict[str, Any] = {"metadata": {"name": "logs", "annotations": {"d": "e"}}, "spec": {}}


def stateful_set(**spec: Any) -> StatefulSet:
    given_spec: dict[str, Any] = {
        "template": TEMPLATE,
        "service_name": "svc",
        "volume_claim_templates": (CLAIM, LOGS),
        "selector": LabelSelector(match_labels={"app": "x"}),
        **spec,
    }
    return StatefulSet(
        metadata=ObjectMeta(name="app", namespace="ns", uid="u"),
        spec=StatefulSetSpec(**given_spec),
        status=StatefulSetStatus(current_revision="old"),
    )


UPDATED_ABOVE_1 = stateful_set(update_strategy=UpdateStrategy("RollingUpdate", RollingUpdate(1)))
HISTORY = {
    "old": ControllerRevision(
        metadata=ObjectMeta(name="old"), data={"spec": {"template": {**BEFORE, "$patch": "replace"}}}
    )
}


def asked(history: dict[str, ControllerRevision]) -> Any:
    def get(namespace: str, name: str) -> ControllerRevision | None:
        return history.get(name)

    return SimpleNamespace(_revisions=SimpleNamespace(get=get))


def body(given_set: StatefulSet, ordinal: int, history: dict[str, ControllerRevision]) -> dict[str, Any]:
    """As the controller has it, which reads the history."""
    kept = history.get(revision_for(given_set, ordinal, "new"))
    if kept is None:
        return pod_body(given_set, ordinal, "new", given_set.spec.template)
    return pod_body(given_set, ordinal, kept.name, template_of(kept))


@pytest.mark.parametrize("ordinal", [0, 1, 12])
@pytest.mark.parametrize("history", [HISTORY, {}])
@pytest.mark.parametrize(
    "given_set", [stateful_set(), UPDATED_ABOVE_1, stateful_set(volume_claim_templates=())]
)
def test_a_pod_of_its_identity_and_template_is_not_objected_to(
    given_set: StatefulSet, history: dict[str, ControllerRevision], ordinal: int
):
    answer = body(given_set, ordinal, history)
    assert [*identities.of_pod(answer, asked(history), given_set, ordinal, "new")] == []


def changed(answer: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    answer = copy.deepcopy(answer)
    *way, last = path.split("/")
    place = answer
    for each in way:
        place = place[each]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return answer


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata/name", "app-1"),
        ("metadata/namespace", "other"),
        ("metadata/labels/app", None),
        ("metadata/labels/apps.kubernetes.io~pod-index", "9"),
        ("metadata/labels/controller-revision-hash", "old"),
        ("metadata/annotations/a", None),
        ("metadata/ownerReferences", []),
        ("spec/hostname", "other"),
        ("spec/subdomain", ""),
        ("spec/containers", []),
        ("spec/volumes", [{"name": "own", "emptyDir": {}}]),
    ],
)
def test_each_field_of_a_pod_that_is_another_is_objected_to(path: str, value: Any):
    answer = body(stateful_set(), 0, {})
    labels = answer["metadata"]["labels"]
    wrong = changed(answer, path, value) if "~" not in path else copy.deepcopy(answer)
    if "~" in path:
        wrong["metadata"]["labels"] = {**labels, path.rpartition("/")[2].replace("~", "/"): value}
    assert len([*identities.of_pod(wrong, asked({}), stateful_set(), 0, "new")]) == 1


def test_a_pod_below_the_partition_that_is_made_of_the_new_template_is_objected_to():
    answer = body(UPDATED_ABOVE_1, 1, HISTORY)
    assert [*identities.of_pod(answer, asked(HISTORY), UPDATED_ABOVE_1, 0, "new")]


@pytest.mark.parametrize("ordinal", [0, 3])
def test_claims_of_their_templates_are_not_objected_to(ordinal: int):
    assert [*identities.of_claims(claim_bodies(stateful_set(), ordinal), stateful_set(), ordinal)] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata/name", "data-app-1"),
        ("metadata/namespace", ""),
        ("metadata/labels/app", "mine"),
        ("metadata/labels/b", None),
        ("metadata/annotations", {"x": "y"}),
        ("metadata/ownerReferences", [{"uid": "u"}]),
        ("spec", {}),
    ],
)
def test_each_field_of_a_claim_that_is_another_is_objected_to(path: str, value: Any):
    first, second = claim_bodies(stateful_set(), 0)
    wrong = [changed(first, path, value), second]
    assert len([*identities.of_claims(wrong, stateful_set(), 0)]) == 1


def test_a_claim_that_is_not_made_is_objected_to():
    assert [*identities.of_claims(claim_bodies(stateful_set(), 0)[:1], stateful_set(), 0)]


def reference(kind: str, name: str, uid: str, *, controls: bool = True) -> OwnerReference:
    version = "apps/v1" if kind == "StatefulSet" else "v1"
    return OwnerReference(api_version=version, kind=kind, name=name, uid=uid, controller=controls)


OF_SET, OF_POD = reference("StatefulSet", "app", "u"), reference("Pod", "app-0", "p")
FORMER_SET, FORMER_POD = replace(OF_SET, uid="former"), replace(OF_POD, uid="former")
FOREIGN, OTHER = reference("Pod", "x", "x"), reference("Pod", "x", "x", controls=False)
POD = Pod(metadata=ObjectMeta(name="app-0", uid="p"))
ALL = (OF_SET, OF_POD, FORMER_SET, FORMER_POD, FOREIGN, OTHER, replace(OF_SET, controller=False))
POLICIES = [ClaimRetentionPolicy(d, s) for d in ("Delete", "Retain") for s in ("Delete", "Retain")]


def claim(*owners: OwnerReference) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data-app-0", namespace="ns", owner_references=owners)
    )


@given(
    st.sampled_from(POLICIES),
    st.lists(st.sampled_from(ALL), max_size=3, unique_by=lambda each: each.uid),
    st.sampled_from((POD, None)),
    st.booleans(),
)
def test_owners_of_claims_are_not_objected_to(
    policy: ClaimRetentionPolicy, owners: list[OwnerReference], pod: Pod | None, condemned: bool
):
    given_set = stateful_set(persistent_volume_claim_retention_policy=policy)
    given_claim = claim(*owners)
    answer = claim_owners(given_set, given_claim, "app-0", pod, condemned)
    assert [*identities.of_owners(answer, given_set, given_claim, "app-0", pod, condemned)] == []
    stale = is_stale(given_claim, given_set, "app-0", pod)
    assert [*identities.of_stale(stale, given_claim, given_set, "app-0", pod)] == []
    assert [*identities.of_stale(not stale, given_claim, given_set, "app-0", pod)]


@pytest.mark.parametrize(
    ("found", "objected"), [(claim(), True), (None, True), (claim(FORMER_SET), False), ("deleted", False)]
)
def test_a_claim_that_is_waited_for_and_does_not_go_is_objected_to(found: Any, objected: bool):
    if found == "deleted":
        found = replace(claim(), metadata=replace(claim().metadata, deletion_timestamp="t"))
    asked_of = Mock(_claims={"ns/data-app-0": found}, _pods=Mock(by_index=Mock(return_value=[POD])))
    body = claim_bodies(stateful_set(), 0)[0]
    assert bool([*identities.of_claim_there(False, asked_of, stateful_set(), body, 0)]) == objected
    assert [*identities.of_claim_there(True, asked_of, stateful_set(), body, 0)] == []


def written(*owners: OwnerReference) -> list[dict[str, Any]]:
    return [{"uid": each.uid, "controller": each.controller} for each in owners]


@pytest.mark.parametrize(
    ("deleted", "scaled", "owners", "condemned", "wrong"),
    [
        ("Delete", "Retain", (), False, None),
        ("Delete", "Retain", (), False, written(OF_POD)),
        ("Delete", "Retain", (), False, written(replace(OF_SET, controller=False))),
        ("Delete", "Retain", (OF_SET,), False, written(OF_SET)),
        ("Delete", "Retain", (OTHER,), False, written(OF_SET)),
        ("Delete", "Retain", (FOREIGN,), False, written(FOREIGN, OF_SET)),
        ("Delete", "Retain", (FORMER_SET,), False, written(FORMER_SET, OF_SET)),
        ("Delete", "Retain", (FORMER_POD,), False, written(FORMER_POD, OF_SET)),
        ("Retain", "Retain", (OF_SET,), False, None),
        ("Retain", "Delete", (), True, None),
        ("Retain", "Delete", (), False, written(OF_POD)),
        ("Retain", "Delete", (OF_POD,), False, None),
        ("Delete", "Delete", (OF_SET,), True, None),
        ("Delete", "Retain", (), True, []),
    ],
)
def test_owners_that_the_retention_policy_does_not_want_are_objected_to(
    deleted: str, scaled: str, owners: tuple[OwnerReference, ...], condemned: bool, wrong: Any
):
    policy = ClaimRetentionPolicy(deleted, scaled)
    given_set = stateful_set(persistent_volume_claim_retention_policy=policy)
    assert len([*identities.of_owners(wrong, given_set, claim(*owners), "app-0", POD, condemned)]) == 1


SPOKEN = st.recursive(
    st.sampled_from((None, "a", 1)),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(("resources", "b", "c")), inner, max_size=2)
    ),
    max_leaves=6,
)
TEMPLATES = st.dictionaries(st.sampled_from(("spec", "metadata")), SPOKEN, max_size=2)


@given(TEMPLATES, TEMPLATES)
def test_two_templates_are_taken_for_the_same_by_both_or_by_neither(one: Any, other: Any):
    alike = set(identities.said(one)) == set(identities.said(other))
    assert same_template(one, other) == alike


def kept(name: str, number: int, template: dict[str, Any]) -> ControllerRevision:
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    return ControllerRevision(metadata=ObjectMeta(name=name), revision=number, data=data)


@pytest.mark.parametrize(
    ("answer", "held", "objected"),
    [
        ("a", [kept("a", 2, TEMPLATE), kept("b", 1, BEFORE)], False),
        ("a", [kept("a", 2, {**TEMPLATE, "status": None}), kept("b", 1, BEFORE)], False),
        ("a", [kept("a", 1, TEMPLATE), kept("b", 2, BEFORE)], True),
        ("b", [kept("a", 1, TEMPLATE), kept("b", 2, BEFORE)], True),
        ("c", [kept("a", 2, TEMPLATE)], True),
        ("c", [kept("b", 2, BEFORE)], False),
        ("b", [kept("b", 2, BEFORE)], True),
    ],
)
def test_another_revision_than_the_newest_one_of_the_template_is_objected_to(
    answer: str, held: list[ControllerRevision], objected: bool
):
    history, owner = Mock(_cache=Mock(by_index=Mock(return_value=held))), stateful_set()
    before = identities.numbers_before(history, owner)
    assert bool([*identities.of_present(answer, before, history, owner)]) == objected


def test_what_another_makes_the_newest_revision_meanwhile_is_not_objected_to():
    held = [kept("a", 2, TEMPLATE), kept("b", 3, BEFORE)]
    history = Mock(_cache=Mock(by_index=Mock(return_value=held)))
    assert [*identities.of_present("a", {"a": 2, "b": 1}, history, stateful_set())] == []


@pytest.mark.parametrize("owner", [stateful_set(), DaemonSet(spec=DaemonSetSpec(template=BEFORE))])
@pytest.mark.parametrize("salt", [0, 3])
def test_the_revision_of_a_template_is_not_objected_to(owner: StatefulSet | DaemonSet, salt: int):
    assert [*identities.of_revision_body(revision_body(owner, 7, salt), owner, 7, salt)] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata/namespace", "other"),
        ("metadata/labels/app", None),
        ("metadata/labels/controller-revision-hash", "other"),
        ("metadata/ownerReferences", []),
        ("data/spec/template/$patch", None),
        ("data/spec/template/spec", {}),
        ("revision", 8),
    ],
)
def test_each_field_of_a_revision_that_is_another_is_objected_to(path: str, value: Any):
    wrong = changed(revision_body(stateful_set(), 7), path, value)
    assert len([*identities.of_revision_body(wrong, stateful_set(), 7)]) == 1
