"""Which Secret a class names."""

from __future__ import annotations

import pytest

from mooring.kube.objects import SecretReference
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.secrets import secret_reference

VALUES = {"pvc.name": "c", "pvc.namespace": "ns", "pvc.annotations['team']": "red"}
ONLY_IN_NAME = ("pvc.name", "pvc.annotations")


def named(name: str | None, namespace: str | None) -> SecretReference | None:
    parts = {"name": name, "namespace": namespace}
    given = {f"csi.storage.k8s.io/node-stage-secret-{key}": value for key, value in parts.items() if value}
    return secret_reference(given, "node-stage", VALUES, only_in_name=ONLY_IN_NAME)


def test_holes_are_filled():
    found = named("${pvc.name}-${pvc.annotations['team']}", "${pvc.namespace}")
    assert found == SecretReference(name="c-red", namespace="ns")


def test_a_class_that_names_none_has_none():
    assert named(None, None) is None


@pytest.mark.parametrize(
    ("name", "namespace", "words"),
    [
        ("x", None, "needs both, or none"),
        (None, "x", "needs both, or none"),
        ("${pvc.uid}", "ns", "not known there"),
        ("x", "${pvc.name}", "not known there"),
        ("x", "${pvc.annotations['team']}", "not known there"),
    ],
)
def test_what_would_let_a_claim_choose_somebodys_secret_is_refused(
    name: str | None, namespace: str | None, words: str
):
    with pytest.raises(InvalidSpec, match=words):
        named(name, namespace)
