"""JSON patch: applied or refused; what it is applied to stays as it was."""

from __future__ import annotations

import json
from copy import deepcopy

import msgspec

from mooring.apiserver.encodings.body import read
from mooring.apiserver.errors import ApiError
from mooring.apiserver.objects.patches.json_patch import MAX_COPIED_BYTES, json_patch

TARGET = {
    "metadata": {"name": "a", "labels": {"x": "y"}},
    "spec": {"list": [1, [2], {"b": 3}], "text": "t", "n": None},
}
SEEDS = [
    json.dumps(each).encode()
    for each in (
        [
            {"op": "add", "path": "/spec/list/-", "value": {"a": [1]}},
            {"op": "remove", "path": "/metadata/labels"},
        ],
        [
            {"op": "copy", "from": "/spec", "path": "/spec/list/0"},
            {"op": "move", "from": "/spec/n", "path": "/a~1b"},
        ],
        [{"op": "test", "path": "/spec/text", "value": "t"}, {"op": "replace", "path": "", "value": {}}],
        [{"op": "copy", "from": "", "path": f"/k{n}"} for n in range(5)],
    )
]


def check(data: bytes) -> None:
    try:
        patch = read(data, "application/json")
    except ApiError:
        return
    target = deepcopy(TARGET)
    try:
        made = json_patch(target, patch)
    except ApiError:
        return
    finally:
        assert target == TARGET
    assert len(msgspec.json.encode(made)) <= len(data) + MAX_COPIED_BYTES + 4096
