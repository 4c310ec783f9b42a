"""What quotas count of claims."""

from __future__ import annotations

import pytest

from mooring.kube.claim_quota import counts_claims, covers, limits, texts, total, usage

GIB = 2**30


def claim(size="1Gi", storage_class="fast", **status):
    spec = {"storageClassName": storage_class, "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": spec, "status": status}


def quota(*names, **spec):
    return {"spec": {"hard": dict.fromkeys(names, "10"), **spec}}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("requests.storage", True),
        ("persistentvolumeclaims", True),
        ("count/persistentvolumeclaims", True),
        ("fast.storageclass.storage.k8s.io/requests.storage", True),
        ("fast.storageclass.storage.k8s.io/persistentvolumeclaims", True),
        ("fast.storageclass.storage.k8s.io/pods", False),
        ("pods", False),
        ("requests.cpu", False),
        ("count/pods", False),
    ],
)
def test_which_resources_are_about_claims(resource, expected):
    assert counts_claims(resource) is expected


def test_a_claim_counts_as_one_and_by_its_size_alone_and_in_its_class():
    assert usage(claim("1500m")) == {
        "persistentvolumeclaims": 1,
        "count/persistentvolumeclaims": 1,
        "requests.storage": 2,  # whole bytes
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": 1,
        "fast.storageclass.storage.k8s.io/requests.storage": 2,
    }
    assert not [name for name in usage(claim(storage_class="")) if "storageclass" in name]


def test_what_is_allocated_counts_if_it_is_more_than_what_is_asked_for():
    assert usage(claim("1Gi", allocatedResources={"storage": "3Gi"}))["requests.storage"] == 3 * GIB
    assert usage(claim("4Gi", allocatedResources={"storage": "3Gi"}))["requests.storage"] == 4 * GIB


def test_the_total_is_of_what_the_quota_limits():
    given = quota("requests.storage", "slow.storageclass.storage.k8s.io/persistentvolumeclaims", "pods")
    found = texts(total(given, [claim("1Gi"), claim("2Gi", storage_class="slow")]))
    assert found == {
        "requests.storage": "3Gi",
        "slow.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
    }
    assert set(limits(given)) == set(found)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"scopes": ["BestEffort"]}, False),  # of pods
        ({"scopes": ["VolumeAttributesClass"]}, True),
        ({"scopeSelector": {"matchExpressions": [("In", ["gold"])]}}, True),
        ({"scopeSelector": {"matchExpressions": [("In", ["silver"])]}}, False),
        ({"scopeSelector": {"matchExpressions": [("NotIn", ["gold"])]}}, False),
        ({"scopeSelector": {"matchExpressions": [("DoesNotExist", None)]}}, False),
    ],
)
def test_a_scope_covers_claims_by_their_volume_attributes_class(spec, expected):
    if "scopeSelector" in spec:
        [(operator, values)] = spec["scopeSelector"]["matchExpressions"]
        term = {"scopeName": "VolumeAttributesClass", "operator": operator}
        spec = {"scopeSelector": {"matchExpressions": [term | ({"values": values} if values else {})]}}
    assert (
        covers(quota("requests.storage", **spec), claim(currentVolumeAttributesClassName="gold")) is expected
    )
