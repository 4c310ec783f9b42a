"""OpenAPI v3: an honest, small document for each group and version, made from the kinds. Pure.

It says which kinds there are, that a PATCH may ask for field validation (kubectl asks before it applies), and of each
kind its outer form. It does not describe every field: kinds are marked as keeping fields that the document does not
name.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from mooring.apiserver.errors import Obj
from mooring.apiserver.kinds import Kind, Kinds
from mooring.apiserver.message import Request, Response
from mooring.apiserver.store import encode

_JSON = {"content-type": "application/json"}
_V2, _V2_TYPE = "/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Clients that do not find a kind in version 3 ask version 2, in protobuf. It is empty: it has none either."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_FIELD_VALIDATION = {
    "name": "fieldValidation",
    "in": "query",
    "description": "What to do about fields that the server does not know: Ignore, Warn or Strict.",
    "schema": {"type": "string", "uniqueItems": True},
}


def answer(request: Request, kinds: Kinds) -> Response | None:
    """The OpenAPI document that a path names, or None."""
    if request.path == _V2:
        return Response(200, {"content-type": _V2_TYPE}, b"")
    document = _documents(kinds).get(request.path.rstrip("/"))
    return None if document is None else Response(200, _JSON, document)


@lru_cache(maxsize=4)
def _documents(kinds: Kinds) -> Mapping[str, bytes]:
    versions: dict[str, list[Kind]] = {}
    for kind in kinds.all:
        versions.setdefault(_root(kind).lstrip("/"), []).append(kind)
    index = {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in versions}}
    documents = {"/openapi/v3": index}
    documents |= {f"/openapi/v3/{path}": _document(kinds) for path, kinds in versions.items()}
    return {path: encode(document) for path, document in documents.items()}


def _root(kind: Kind) -> str:
    return f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"


def _schema_name(kind: Kind) -> str:
    group = kind.group.partition(".")[0] or "core"
    return f"io.k8s.api.{group}.{kind.version}.{kind.name}"


def _document(kinds: Iterable[Kind]) -> Obj:
    schemas: Obj = {_META: {"type": "object", "description": "Standard object's metadata.", "properties": _META_FIELDS}}
    paths: Obj = {}
    for kind in kinds:
        schemas[_schema_name(kind)] = _schema(kind)
        place = f"{_root(kind)}/namespaces/{{namespace}}" if kind.namespaced else _root(kind)
        paths[f"{place}/{kind.plural}"] = _operations(kind, "get", "post")
        paths[f"{place}/{kind.plural}/{{name}}"] = _operations(kind, "get", "put", "patch", "delete")
    return {
        "openapi": "3.0.0",
        "info": {"title": "Mooring", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operations(kind: Kind, *methods: str) -> Obj:
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.name}
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_schema_name(kind)}"}}}
    operation: Obj = {
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-group-version-kind": gvk,
    }
    writes = operation | {"parameters": [_FIELD_VALIDATION]}
    return {method: writes if method in ("post", "put", "patch") else operation for method in methods}


_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_META_FIELDS: Obj = {
    **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp"), _TEXT),
    "deletionTimestamp": _TEXT,
    "generation": {"type": "integer"},
    "deletionGracePeriodSeconds": {"type": "integer"},
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "finalizers": {"type": "array", "items": _TEXT},
    "ownerReferences": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}


def _schema(kind: Kind) -> Obj:
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "type": "object",
        "description": f"{kind.name} of {kind.api_version}.",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"$ref": f"#/components/schemas/{_META}"},
            "spec": open_object,
            "status": open_object,
        },
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": [{"group": kind.group, "version": kind.version, "kind": kind.name}],
    }
