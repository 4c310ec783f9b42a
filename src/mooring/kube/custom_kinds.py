"""How a CustomResourceDefinition is written down: schemas of fields, columns of `kubectl get`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
QUANTITY: Schema = {"x-kubernetes-int-or-string": True}
DATE_TIME: Schema = {"type": "string", "format": "date-time"}
AGE = ("date", ".metadata.creationTimestamp")


def text(longest: int) -> Schema:
    """Of at most so many characters."""
    return {"type": "string", "maxLength": longest}


def choice(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def whole(minimum: int = 0) -> Schema:
    return {"type": "integer", "format": "int64", "minimum": minimum}


def seconds(minimum: float = 0) -> Schema:
    return {"type": "number", "minimum": minimum}


def fields(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def listed(items: Schema, most: int) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def mapped(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def ruled(schema: Schema, **rules: str) -> Schema:
    """The schema with rules in CEL, each by the sentence that says it (underscores are spaces)."""
    written = [{"rule": rule, "message": sentence.replace("_", " ")} for sentence, rule in rules.items()]
    return {**schema, "x-kubernetes-validations": written}


def described(schema: Schema, texts: Mapping[str, str], path: str = "") -> Schema:
    """The schema with the text of each field, by its path ("spec.nodes"; "" is the whole). Lists and maps
    have no part in a path of their own. A field without a text stays as it is."""
    found = dict(schema)
    if "properties" in schema:
        found["properties"] = {
            name: described(field, texts, f"{path}.{name}".lstrip("."))
            for name, field in schema["properties"].items()
        }
    for inner in ("items", "additionalProperties"):
        if inner in schema:
            found[inner] = _within(schema[inner], texts, path)
    return {"description": texts[path], **found} if path in texts else found


def _within(schema: Schema, texts: Mapping[str, str], path: str) -> Schema:
    """What a list or a map holds: its fields have texts; the whole has that of the list or map."""
    return described(schema, {name: text for name, text in texts.items() if name != path}, path)


def definition(
    group: str,
    version: str,
    kind: str,
    plural: str,
    scope: str,
    properties: Mapping[str, Schema],
    columns: Mapping[str, tuple[str, str]],
    *,
    short: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The body of a CustomResourceDefinition. `columns`: by name, type and JSON path. `texts`: what `kubectl
    explain` says, as `described` takes it."""
    schema: Schema = {"type": "object", "properties": dict(properties)}
    served: dict[str, Any] = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": described(schema, texts or {})},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} for name, (type_, path) in columns.items()
        ],
    }
    if "status" in properties:
        served["subresources"] = {"status": {}}
    return {
        "metadata": {
            "name": f"{plural}.{group}",
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": list(short)},
            "versions": [served],
        },
    }
