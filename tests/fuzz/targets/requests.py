"""Whole requests to the server's core: whatever is sent, the answer is no error of the server's own."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from mooring.apiserver import ADMIN, Request, Server

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PATHS = (
    "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/pods/p", "/api/v1/namespaces/default/pods/p/status",
    "/api/v1/namespaces/default/pods/p/binding", "/api/v1/namespaces/default/pods/p/eviction", "/api/v1/nodes/n",
    "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes", "/api/v1/namespaces/default/secrets",
    "/apis/apps/v1/namespaces/default/statefulsets", "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/storage.k8s.io/v1/volumeattachments", "/apis/storage.k8s.io/v1/csinodes", "/api/v1/namespaces/default/events",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/x.io/v1/namespaces/default/things", "/apis/x.io/v1/namespaces/default/things/t", "/api/v1/namespaces",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authentication.k8s.io/v1/tokenreviews",
)  # fmt: skip
_TYPES = (
    "application/json", "application/yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf",
)  # fmt: skip
_ACCEPTS = (
    "", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)  # fmt: skip
_OPTIONS = (
    "fieldManager=m", "force=true", "dryRun=All", "fieldValidation=Strict", "labelSelector=a in (b)", "limit=1",
    "fieldSelector=metadata.name!=a", "continue=eyJ2IjoxLCJzdGFydCI6WyIiLCIiXX0", "resourceVersion=1", "includeObject=Object",
    "propagationPolicy=Foreground", "gracePeriodSeconds=-1",
)  # fmt: skip


def _seed(method: str, path: str, kind: str, body: Any, accept: int = 0, options: int = 0) -> bytes:
    head = bytes([_METHODS.index(method), _PATHS.index(path), _TYPES.index(f"application/{kind}"), accept])
    return head + options.to_bytes(2, "big") + json.dumps(body).encode()


_MAPS, _PODS, _THINGS = _PATHS[0], _PATHS[2], _PATHS[18]
_POD = {
    "metadata": {"name": "q"},
    "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A"}]}]},
}
SEEDS = [
    _seed("POST", _MAPS, "json", {"metadata": {"name": "b", "labels": {"a": "b"}}, "data": {"a": "b"}}),
    _seed("POST", _PODS, "yaml", _POD, options=8),
    _seed("PUT", _PATHS[3], "json", _POD | {"metadata": {"name": "p", "finalizers": ["a.b/c"]}}),
    _seed("PATCH", _PATHS[4], "strategic-merge-patch+json", {"status": {"conditions": [{"type": "a"}]}}, 3),
    _seed("PATCH", _PATHS[1], "json-patch+json", [{"op": ["add"], "path": "/data/x", "value": "y"}]),
    _seed(
        "PATCH",
        _PATHS[1],
        "apply-patch+yaml",
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"q": "r"}},
        0,
        3,
    ),
    _seed("POST", _PATHS[5], "json", {"target": {"name": "n"}}),
    _seed("POST", _PATHS[6], "json", {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}}),
    _seed(
        "POST",
        _PATHS[8],
        "json",
        {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "1e999"}}}},
    ),
    _seed(
        "POST",
        _PATHS[9],
        "json",
        {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "csi": {}}},
    ),
    _seed(
        "POST",
        _PATHS[11],
        "json",
        {"metadata": {"name": "s"}, "spec": {"selector": {"matchExpressions": [{}]}}},
    ),
    _seed(
        "POST", _PATHS[16], "json", {"metadata": {"name": "y.x.io"}, "spec": {"versions": [{"schema": {}}]}}
    ),
    _seed(
        "POST",
        _THINGS,
        "json",
        {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "u"}, "spec": {"a": "b"}},
    ),
    _seed(
        "PATCH", _PATHS[19], "merge-patch+json", {"spec": {"list": [{"name": 1}, {"name": []}], "any": 1e308}}
    ),
    _seed("DELETE", _PODS, "json", {"propagationPolicy": "Orphan", "preconditions": {"uid": 5}}),
    _seed("GET", _MAPS, "json", {}, 3, 0x90),
    _seed("POST", _PATHS[21], "json", {"spec": {"resourceAttributes": {"verb": "*"}}}),
]
_NAMES = {"plural": "things", "kind": "Thing"}
_LIST = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
}
_SPEC = {"type": "object", "properties": {"list": _LIST}, "x-kubernetes-preserve-unknown-fields": True}
_VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}},
}
_DEFINITION = {
    "metadata": {"name": "things.x.io"},
    "spec": {"group": "x.io", "scope": "Namespaced", "names": _NAMES, "versions": [_VERSION]},
}
_LOOP = asyncio.new_event_loop()


async def _fresh() -> Server:
    server = Server.in_memory(now=lambda: datetime(2026, 1, 1, tzinfo=UTC), random=Random(0))
    await server.start()
    await server.call("POST", _PATHS[16], body=_DEFINITION)
    await server.call("POST", _MAPS, body={"metadata": {"name": "a"}, "data": {"a": "b"}})
    await server.call("POST", _PODS, body=_POD | {"metadata": {"name": "p"}})
    await server.call("POST", "/api/v1/nodes", body={"metadata": {"name": "n"}})
    await server.call(
        "POST", _THINGS, body={"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}}
    )
    return server


_SERVER: list[Server] = []


async def _ask(data: bytes) -> None:
    if not _SERVER:
        _SERVER.append(await _fresh())
    server, head = _SERVER[0], data[:6].ljust(6, b"\0")
    method = _METHODS[head[0] % len(_METHODS)]
    chosen = [each for at, each in enumerate(_OPTIONS) if int.from_bytes(head[4:6], "big") >> at & 1]
    query = [(name, value) for name, _, value in (each.partition("=") for each in chosen)]
    headers = {"content-type": _TYPES[head[2] % len(_TYPES)], "accept": _ACCEPTS[head[3] % len(_ACCEPTS)]}
    request = Request(method, _PATHS[head[1] % len(_PATHS)], query, headers, data[6:], ADMIN, warnings=[])
    answer = await server.handle(request)
    if answer.stream is not None:
        await answer.stream.aclose()  # type: ignore[attr-defined]
    assert answer.status != 500 or "reason" not in msgspec.json.decode(answer.body), answer.body[:2000]
    if method != "GET" and answer.status < 300:
        _SERVER.clear()  # each input meets the same objects


def check(data: bytes) -> None:
    _LOOP.run_until_complete(_ask(data))
