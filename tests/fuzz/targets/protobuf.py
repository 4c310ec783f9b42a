"""Protobuf bodies: read or refused, at most 200 levels deep, and what is read can be written and read
again."""

from __future__ import annotations

import json

import msgspec
from tests.fuzz.targets.json_body import depth

from mooring.apiserver.encodings import protobuf
from mooring.apiserver.encodings.body import read_object
from mooring.apiserver.errors import ApiError


def _seed(api_version: str, kind: str, **fields: object) -> bytes:
    return protobuf.encode(json.dumps({"kind": kind, "apiVersion": api_version, **fields}).encode())


_TIME = "2026-01-01T00:00:00Z"
SEEDS = [
    _seed(
        "v1",
        "ConfigMap",
        metadata={"name": "a", "creationTimestamp": _TIME, "labels": {"a": "b"}},
        data={"k": "v"},
    ),
    _seed("v1", "Secret", metadata={"name": "a"}, data={"k": "aGk="}, type="Opaque"),
    _seed(
        "v1",
        "Pod",
        metadata={"name": "a"},
        spec={
            "containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 1}]}
            ]
        },
    ),
    _seed("apps/v1", "ControllerRevision", metadata={"name": "a"}, data={"a": [1]}, revision=-1),
    _seed(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        metadata={"name": "a"},
        spec={
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"not": {"items": {"minimum": 1.5}}}}}]
        },
    ),
    b"k8s\x00",
]


def check(data: bytes) -> None:
    try:
        value = read_object(data, protobuf.MEDIA_TYPE)
    except ApiError:
        return
    assert depth(value) <= 202
    msgspec.json.decode(msgspec.json.encode(value))
