"""OpenAPI: version 3 by group and version, and version 2 as one document, made from the kinds. Pure.

The fields of the API's own types come from the facts (`schema.published`), those of custom kinds from their
definition. Documents are made when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256

from mooring.apiserver.errors import Obj
from mooring.apiserver.message import Request, Response
from mooring.apiserver.objects.kinds import Kind, Kinds
from mooring.apiserver.schema.facts import message_of
from mooring.apiserver.schema.published import schema_name, schemas
from mooring.apiserver.store.object_store import encode
from mooring.apiserver.values.dotted import object_at

_JSON = {"content-type": "application/json"}
_V2, _V3 = "/openapi/v2", "/openapi/v3"
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_IN_V2, _IN_V3 = "#/definitions/", "#/components/schemas/"
_META = "meta.v1.ObjectMeta"
_OPTIONS = ("dryRun", "fieldManager", "fieldValidation")
_METHODS = {
    "collection": {"get": "list", "post": "post", "delete": "deletecollection"},
    "object": {"get": "get", "put": "put", "patch": "patch", "delete": "delete"},
}


def answer(request: Request, kinds: Kinds) -> Response | None:
    """The OpenAPI document that a path names, or None."""
    path = request.path.rstrip("/")
    if path == _V2:
        return _version_2(request, kinds)
    if path == _V3:
        return Response(200, _JSON, _index(kinds))
    if not path.startswith(f"{_V3}/"):
        return None
    members = _by_root(kinds).get(path.removeprefix(_V3))
    return Response(200, _JSON, _document(members)) if members else None


def _version_2(request: Request, kinds: Kinds) -> Response:
    """As JSON; clients that take nothing but protobuf get an empty document: it has no kind that version 3
    lacks."""
    accept = request.headers.get("accept", "")
    if "protobuf" in accept and "json" not in accept:
        return Response(200, {"content-type": _V2_PROTOBUF}, b"")
    return Response(200, _JSON, _swagger(kinds))


@lru_cache(maxsize=4)
def _by_root(kinds: Kinds) -> Mapping[str, tuple[Kind, ...]]:
    by_root: dict[str, tuple[Kind, ...]] = {}
    for kind in kinds.all:
        by_root[_root(kind)] = (*by_root.get(_root(kind), ()), kind)
    return by_root


@lru_cache(maxsize=4)
def _index(kinds: Kinds) -> bytes:
    """Where each document is; the hash changes with the kinds, so that clients read a document anew only
    then."""
    paths: Obj = {}
    for root, members in _by_root(kinds).items():
        described = repr([(kind.name, kind.version, kind.custom and kind.custom.schema) for kind in members])
        digest = sha256(described.encode()).hexdigest()[:32].upper()
        paths[root.lstrip("/")] = {"serverRelativeURL": f"{_V3}{root}?hash={digest}"}
    return encode({"paths": paths})


def _root(kind: Kind) -> str:
    return f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"


@lru_cache(maxsize=128)
def _document(kinds: tuple[Kind, ...]) -> bytes:
    document: Obj = {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}}
    document["paths"] = _paths(kinds, version=3)
    return encode(document | {"components": {"schemas": _schemas(kinds, _IN_V3)}})


@lru_cache(maxsize=2)
def _swagger(kinds: Kinds) -> bytes:
    document: Obj = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}}
    document["paths"] = _paths(kinds.all, version=2)
    return encode(document | {"definitions": _schemas(kinds.all, _IN_V2)})


def _schema_name(kind: Kind) -> str:
    if kind.custom is not None:
        return ".".join([*reversed(kind.group.split(".")), kind.version, kind.name])
    return schema_name(message_of(kind.group, kind.version, kind.name) or kind.name)


def _schemas(kinds: Sequence[Kind], reference: str) -> Obj:
    own = [message_of(kind.group, kind.version, kind.name) for kind in kinds if kind.custom is None]
    lists = [f"{name}List" for name in own if name]
    named_schemas: Obj = dict(schemas([_META, "meta.v1.ListMeta", *lists], reference))
    for kind in kinds:
        name = _schema_name(kind)
        schema = named_schemas[name] if kind.custom is None else _custom(kind.custom.schema, reference)
        named = [{"group": kind.group, "version": kind.version, "kind": kind.name}]
        described = schema.get("description") or f"{kind.name} of {kind.api_version}."
        named_schemas[name] = schema | {"description": described, "x-kubernetes-group-version-kind": named}
    return named_schemas


def _custom(schema: Obj, reference: str) -> Obj:
    text = {"type": "string"}
    identity = {"apiVersion": text, "kind": text, "metadata": {"$ref": reference + schema_name(_META)}}
    return schema | {"properties": {**object_at(schema, "properties"), **identity}}


def _paths(kinds: Iterable[Kind], *, version: int) -> Obj:
    paths: Obj = {}
    for kind in kinds:
        place = f"{_root(kind)}/namespaces/{{namespace}}" if kind.namespaced else _root(kind)
        collection = f"{place}/{kind.plural}"
        paths[collection] = _operations(kind, "collection", version)
        paths[f"{collection}/{{name}}"] = _operations(kind, "object", version)
        for name in sorted(kind.subresources & {"status", "scale"}):
            paths[f"{collection}/{{name}}/{name}"] = _operations(kind, "object", version)
    return paths


def _operations(kind: Kind, place: str, version: int) -> Obj:
    methods = _METHODS[place].items()
    return {method: _operation(kind, method, action, version) for method, action in methods}


def _operation(kind: Kind, method: str, action: str, version: int) -> Obj:
    schema = {"$ref": (_IN_V2 if version == 2 else _IN_V3) + _schema_name(kind)}
    answer = {"schema": schema} if version == 2 else {"content": {"application/json": {"schema": schema}}}
    operation: Obj = {
        "responses": {"200": {"description": "OK"} | answer},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.name},
    }
    if method in {"get", "delete"}:
        return operation
    text = {"type": "string", "uniqueItems": True}
    parameters = [
        {"name": name, "in": "query"} | (text if version == 2 else {"schema": text}) for name in _OPTIONS
    ]
    return operation | {"parameters": parameters}
