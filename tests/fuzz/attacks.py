"""Attacks on a running server that cost it as much as an attacker knows how. Each is one request, or a
few."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from tests.fuzz.served import Answer, Served

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/x.io/v1/namespaces/default/things"
YAML, APPLY = "application/yaml", "application/apply-patch+yaml"
JSON_PATCH, MERGE, STRATEGIC = (
    f"application/{each}-patch+json" for each in ("json", "merge", "strategic-merge")
)

_DOUBLING = [{"op": "add", "path": "/data/a", "value": {"x": "y" * 60}}] + [
    {"op": "copy", "from": "/data", "path": f"/data/c{n}"} for n in range(26)
]
_ALIASES = "\n".join(
    [
        "a: &a [x,x,x,x,x,x,x,x,x]",
        *(f"{c}: &{c} [{','.join(['*' + chr(ord(c) - 1)] * 9)}]" for c in "bcdefghi"),
    ]
)


def _pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def _definition(schema: dict[str, Any], plural: str = "things") -> dict[str, Any]:
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural[:-1].title(),
        "listKind": plural.title(),
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "x.io", "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{plural}.x.io"}, "spec": spec}


_THING_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "pattern": "^(a+)+$"},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "map": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
                "any": {
                    "type": "array",
                    "items": {"type": "integer", "anyOf": [{"minimum": 10**6 + n} for n in range(300)]},
                },
            },
        }
    },
}


def prepare(server: Served) -> None:
    """What the attacks need to be there."""
    server.json("POST", DEFINITIONS, _definition(_THING_SCHEMA))
    server.json("POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    server.json("POST", PODS, _pod())
    for n in range(400):
        server.json(
            "POST",
            MAPS,
            {"metadata": {"name": f"many-{n}", "labels": {"a": str(n)}}, "data": {"k": "v" * 50}},
        )


def _body(
    method: str, path: str, body: Any, content_type: str = "application/json"
) -> Callable[[Served], Answer]:
    sent = (
        body.encode()
        if isinstance(body, str)
        else body
        if isinstance(body, bytes)
        else json.dumps(body).encode()
    )
    return lambda server: server.send(method, path, sent, {"Content-Type": content_type})


def _get(path: str, **headers: str) -> Callable[[Served], Answer]:
    return lambda server: server.send(
        "GET", path, b"", {name.replace("_", "-"): each for name, each in headers.items()}
    )


def _apply_twice(first: Any, second: Any, path: str) -> Callable[[Served], Answer]:
    def attack(server: Served) -> Answer:
        for manager, value in (("one", first), ("one", second)):
            answer = server.send(
                "PATCH",
                f"{path}?fieldManager={manager}&force=true",
                json.dumps(value).encode(),
                {"Content-Type": APPLY},
            )
        return answer

    return attack


def _things(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


_WIDE = {f"k{n}": "v" for n in range(40_000)}
_ENTRIES = [{"name": f"n{n}", "value": "v"} for n in range(20_000)]
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wide"}}
_TERMS = ",".join(f"!k{n}" for n in range(7000))
_ENV = [{"name": f"N{n}", "value": "v"} for n in range(25_000)]

ATTACKS: dict[str, Callable[[Served], Answer]] = {
    "yaml: brackets": _body("POST", MAPS, b"[" * 30_000, YAML),
    "yaml: braces": _body("POST", MAPS, b"{a: " * 30_000, YAML),
    "yaml: dashes": _body("POST", MAPS, b"- " * 1_000_000, YAML),
    "yaml: aliases": _body("POST", MAPS, _ALIASES, YAML),
    "yaml: three million events": _body("POST", MAPS, b"a: [" + b"x," * 1_500_000 + b"x]", YAML),
    "yaml: many documents": _body("POST", MAPS, b"---\n" * 700_000, YAML),
    "yaml: a long scalar": _body("POST", MAPS, b"a: " + b"x y " * 700_000, YAML),
    "json: brackets": _body("POST", MAPS, b"[" * 3_000_000),
    "json: a million lists": _body("POST", MAPS, b'{"a":[' + b"[]," * 990_000 + b"[]]}"),
    "json: a million objects": _body(
        "POST", MAPS, b'{"metadata":{"name":"x"},"a":[' + b"{}," * 990_000 + b"{}]}"
    ),
    "json: many fields": _body(
        "POST", f"{MAPS}?fieldValidation=Strict", {"metadata": {"name": "x"}, **_WIDE}
    ),
    "json: a field many times": _body(
        "POST", f"{MAPS}?fieldValidation=Strict", b"{" + b'"a":1,' * 400_000 + b'"a":1}'
    ),
    "json: a long number": _body("POST", MAPS, b'{"a":' + b"1" * 2_000_000 + b"}"),
    "json: wide data": _body("POST", MAPS, {"metadata": {"name": "w"}, "data": _WIDE}),
    "json: many annotations": _body("POST", MAPS, {"metadata": {"name": "x", "annotations": _WIDE}}),
    "json: many labels": _body(
        "POST", MAPS, {"metadata": {"name": "x", "labels": {f"a/b{n}": "" for n in range(90_000)}}}
    ),
    "json: many finalizers": _body(
        "POST", MAPS, {"metadata": {"name": "x", "finalizers": [f"a/b{n}" for n in range(90_000)]}}
    ),
    "json: many owners": _body(
        "POST",
        MAPS,
        {"metadata": {"name": "x", "ownerReferences": [{"controller": True} for _ in range(90_000)]}},
    ),
    "json: many containers": _body(
        "POST",
        PODS,
        {"metadata": {"name": "x"}, "spec": {"containers": [{"name": f"c{n}"} for n in range(60_000)]}},
    ),
    "json: many variables": _body(
        "POST", PODS, _pod("x", containers=[{"name": "c", "image": "x", "env": _ENV}])
    ),
    "json: many volumes": _body(
        "POST", PODS, _pod("x", volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(40_000)])
    ),
    "json: many tolerations": _body("POST", PODS, _pod("x", tolerations=[{"operator": "Exists"}] * 60_000)),
    "json patch: doubling copies": _body("PATCH", f"{MAPS}/m", _DOUBLING, JSON_PATCH),
    "json patch: ten thousand operations": _body(
        "PATCH",
        f"{MAPS}/m",
        [{"op": "add", "path": f"/data/k{n}", "value": "v"} for n in range(10_000)],
        JSON_PATCH,
    ),
    "json patch: too many operations": _body("PATCH", f"{MAPS}/m", [{"op": "test"}] * 200_000, JSON_PATCH),
    "json patch: insert in front": _body(
        "PATCH",
        f"{MAPS}/m",
        [{"op": "add", "path": "/x", "value": [0] * 500_000}]
        + [{"op": "add", "path": "/x/0", "value": 0} for _ in range(9_000)],
        JSON_PATCH,
    ),
    "json patch: copies of a long list": _body(
        "PATCH",
        f"{MAPS}/m",
        [{"op": "add", "path": "/x", "value": [0] * 100_000}]
        + [{"op": "copy", "from": "/x", "path": "/y"} for _ in range(9_000)],
        JSON_PATCH,
    ),
    "merge patch: wide": _body("PATCH", f"{MAPS}/m", {"data": _WIDE}, MERGE),
    "strategic: many variables": _body(
        "PATCH", f"{PODS}/p", {"spec": {"containers": [{"name": "c", "env": _ENV}]}}, STRATEGIC
    ),
    "strategic: an order": _body(
        "PATCH",
        f"{PODS}/p",
        {
            "spec": {
                "containers": [
                    {"name": "c", "$setElementOrder/env": [{"name": e["name"]} for e in _ENV], "env": _ENV}
                ]
            }
        },
        STRATEGIC,
    ),
    "strategic: many finalizers": _body(
        "PATCH", f"{MAPS}/m", {"metadata": {"finalizers": [f"a.b/c{n}" for n in range(90_000)]}}, STRATEGIC
    ),
    "strategic: many deletions": _body(
        "PATCH",
        f"{PODS}/p",
        {
            "spec": {
                "containers": [
                    {"name": "c", "env": [{"$patch": "delete", "name": f"N{n}"} for n in range(60_000)]}
                ]
            }
        },
        STRATEGIC,
    ),
    "apply: wide, and gone": _apply_twice({**_MAP, "data": _WIDE}, {**_MAP, "data": {}}, f"{MAPS}/wide"),
    "apply: a named list, and gone": _apply_twice(_things(map=_ENTRIES), _things(map=[]), f"{THINGS}/t"),
    "apply: a named list, and again": _apply_twice(
        _things(map=_ENTRIES), _things(map=_ENTRIES[::-1]), f"{THINGS}/t"
    ),
    "custom: a pattern": _body("POST", THINGS, _things(text="a" * 40_000 + "!")),
    "custom: a large set": _body("POST", THINGS, _things(set=[str(n) for n in range(200_000)])),
    "custom: many alternatives": _body("POST", THINGS, _things(any=list(range(30_000)))),
    "custom: a large schema": _body(
        "POST",
        DEFINITIONS,
        _definition(
            {
                "type": "object",
                "properties": {f"p{n}": {"type": "string", "pattern": f"a{n}"} for n in range(20_000)},
            },
            "wides",
        ),
    ),
    "custom: a deep schema": _body(
        "POST",
        DEFINITIONS,
        b'{"metadata":{"name":"deeps.x.io"},"spec":{"versions":[{"schema":{"openAPIV3Schema":'
        + b'{"type":"object","properties":{"a":' * 90
        + b"{}"
        + b"}}" * 90
        + b"}}]}}",
    ),
    "selector: many terms": _get(f"{MAPS}?labelSelector={_TERMS}"),
    "selector: many values": _get(f"{MAPS}?labelSelector=a+in+({','.join(str(n) for n in range(10_000))})"),
    "selector: commas": _get(f"{MAPS}?labelSelector={'a,' * 30_000}a"),
    "selector: fields": _get(f"{MAPS}?fieldSelector={','.join(['metadata.name!=a'] * 3_000)}"),
    "selector: a watch": _get(f"{MAPS}?watch=1&timeoutSeconds=1&labelSelector={_TERMS}"),
    "query: many parameters": _get(f"{MAPS}?{'&'.join('a=b' for _ in range(60_000))}"),
    "query: a long path": _get(f"/api/v1/{'a/' * 60_000}"),
    "header: long": _get(MAPS, Accept="application/json," * 4000),
    "list: a table": _get(MAPS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
    "list: a table with objects": _get(
        f"{MAPS}?includeObject=Object", Accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    ),
    "list: metadata": _get(MAPS, Accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    "list: yaml": _get(MAPS, Accept="application/yaml"),
    "list: protobuf": _get(MAPS, Accept="application/vnd.kubernetes.protobuf"),
    "list: json": _get(MAPS),
    "openapi": _get("/openapi/v3/api/v1"),
    "openapi v2": _get("/openapi/v2"),
    "discovery": _get("/apis", Accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    "protobuf: a long varint": _body(
        "POST", MAPS, b"k8s\x00" + b"\x80" * 2_000_000, "application/vnd.kubernetes.protobuf"
    ),
    "protobuf: many fields": _body(
        "POST",
        MAPS,
        b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + b"\xc0\x8d\xb7\x01" + b"\x1a\x00" * 1_500_000,
        "application/vnd.kubernetes.protobuf",
    ),
    "gzip: a bomb": lambda server: server.send(
        "POST", MAPS, gzip.compress(b"\x00" * 200_000_000, 1)[:2_900_000], {"Content-Encoding": "gzip"}
    ),
}
