"""Merge patch and strategic merge patch: applied or refused, what they are applied to stays as it was, and
applied again they change nothing (a merge patch)."""

from __future__ import annotations

import json
from copy import deepcopy

import msgspec

from mooring.apiserver.encodings.body import read
from mooring.apiserver.errors import ApiError
from mooring.apiserver.objects.patches.merge_patch import merge_patch
from mooring.apiserver.objects.patches.strategic_merge import strategic_merge_patch
from mooring.apiserver.schema.facts import one

TARGET = {
    "metadata": {"name": "a", "finalizers": ["a", "b"], "labels": {"x": "y"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "env": [{"name": "A", "value": "1"}, {"name": "B"}],
                "ports": [{"containerPort": 1}],
            }
        ],
        "tolerations": [{"key": "k"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
SEEDS = [
    json.dumps(each).encode()
    for each in (
        {"spec": {"containers": [{"name": "c", "env": [{"name": "B", "$patch": "delete"}, {"name": "C"}]}]}},
        {
            "spec": {
                "containers": [
                    {"name": "c", "$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": []}
                ]
            }
        },
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["z"], "labels": None}},
        {"spec": {"$retainKeys": ["volumes"], "volumes": [{"name": "v", "$patch": "replace"}]}},
        {"$patch": "replace", "metadata": {}},
        {"spec": {"volumes": [{"$patch": "merge"}], "tolerations": [1]}},
    )
]


def check(data: bytes) -> None:
    try:
        patch = read(data, "application/json")
    except ApiError:
        return
    target = deepcopy(TARGET)
    once = merge_patch(target, patch)
    assert target == TARGET
    assert merge_patch(once, patch) == once
    try:
        made = strategic_merge_patch(target, patch, one("core.v1.Pod"))
    except ApiError:
        return
    finally:
        assert target == TARGET
    assert len(msgspec.json.encode(made)) <= len(data) + 4096
