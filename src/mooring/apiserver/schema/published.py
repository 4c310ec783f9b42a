"""The API's own types as OpenAPI schemas, made from the facts. Pure; the types' prose is not among the
facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias

from mooring.apiserver.schema.facts import Field, message

Schema: TypeAlias = dict[str, Any]

_PREFIXES = {
    "meta": "io.k8s.apimachinery.pkg.apis.",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.",
}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_PLAIN: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "RawExtension": {"type": "object"},
    "FieldsV1": {"type": "object"},
    "ExtraValue": {"type": "array", "items": {"type": "string"}},
}
_SPECIAL: Mapping[str, tuple[str, Schema]] = {
    "Quantity": (_QUANTITY, {"type": "string"}),
    "IntOrString": (_INT_OR_STRING, {"type": "string", "format": "int-or-string"}),
}


def schema_name(name: str) -> str:
    """What OpenAPI calls a message: `io.k8s.api.core.v1.Pod`."""
    return _PREFIXES.get(name.partition(".")[0], "io.k8s.api.") + name


def schemas(names: Iterable[str], reference: str) -> dict[str, Schema]:
    """The schemas of messages and of all that they are made of, by name; `reference` stands before names in
    `$ref`."""
    by_name: dict[str, Schema] = {}
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if schema_name(name) in by_name:
            continue
        by_name[schema_name(name)] = _schema(name, reference)
        waiting += [each.type for each in message(name).fields.values() if "." in each.type]
    return by_name | dict(_SPECIAL.values())


@cache
def _schema(name: str, reference: str) -> Schema:
    fields = message(name).fields
    properties = {field.name: _property(field, reference) for field in fields.values()}
    if "metadata" in fields:
        properties = {"apiVersion": _PLAIN["string"], "kind": _PLAIN["string"]} | properties
    needed = [field.name for field in fields.values() if not field.omit and not field.pointer]
    return {"type": "object", "properties": properties} | ({"required": needed} if needed else {})


def _property(field: Field, reference: str) -> Schema:
    one = _value(field.type, reference)
    if field.shape == "map":
        return {"type": "object", "additionalProperties": one}
    if field.shape == "one":
        return one
    return {"type": "array", "items": one} | _merging(field)


def _value(kind: str, reference: str) -> Schema:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _SPECIAL:
        return {"$ref": reference + _SPECIAL[kind][0]}
    return {"$ref": reference + schema_name(kind)} if "." in kind else _ANYTHING


def _merging(field: Field) -> Schema:
    """How patches and applies merge a list."""
    extensions: Schema = {}
    if field.merge_key is not None:
        extensions["x-kubernetes-patch-strategy"] = "merge"
    if field.merge_key:
        extensions["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.list_keys:
        extensions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(field.list_keys)}
    elif field.is_set:
        extensions["x-kubernetes-list-type"] = "set"
    return extensions
