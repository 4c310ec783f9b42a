"""Custom objects: a schema and an object of anyone's making are judged, pruned and filled, or the schema is
refused."""

from __future__ import annotations

import json

from mooring.apiserver.encodings.body import read
from mooring.apiserver.errors import ApiError
from mooring.apiserver.objects.custom import structural
from mooring.apiserver.objects.typed_form import place_of  # noqa: F401 - the facts are read once, before anything is measured
from mooring.apiserver.schema.shapes import WrongShape, shaped

SEEDS = [
    json.dumps(each).encode()
    for each in (
        [
            {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$", "maxLength": 3}}},
            {"a": "aaa!"},
        ],
        [
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer", "multipleOf": 2}},
            [1, 2, 2],
        ],
        [{"anyOf": [{"type": "string"}, {"minimum": 3}], "not": {"enum": [1]}, "nullable": True}, 1],
        [
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": {}},
            [{"a": []}, {"a": []}],
        ],
        [
            {"additionalProperties": {"default": {"b": 1}, "format": "date-time"}, "maxProperties": 1},
            {"x": "y", "z": "0"},
        ],
        [{"properties": {"q": {"x-kubernetes-int-or-string": True, "format": "quantity"}}}, {"q": "1e999"}],
    )
]


def check(data: bytes) -> None:
    try:
        pair = read(data, "application/json")
    except ApiError:
        return
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], dict)):
        return
    try:
        schema = shaped("apiextensions.v1.JSONSchemaProps", pair[0], [])
    except WrongShape:
        return
    unknown: list[str] = []
    value = structural.pruned(schema, pair[1], unknown)
    structural.fill_defaults(schema, value)
    for error in structural.value_errors(schema, value):
        assert str(error)
