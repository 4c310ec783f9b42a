"""The reference page of the kinds of fencing.mooring.dev, from the schemas that an API server is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mooring.controllers.fencing.kinds import FENCING_KINDS

from .commands import cell, text

Schema = Mapping[str, Any]
NAME = "fencing-kinds.md"


def page() -> str:
    """Every kind, and every field with its type, its bounds and what it says."""
    lines = [
        "# Fencing kinds",
        "",
        "The kinds of `fencing.mooring.dev`, as `kubectl explain` has them, too. How they work together: [fencing](../fencing.md). "
        "`[]` is an item of a list, `{}` a value of a map; what stands in bold has to be given.",
        "",
    ]
    for kind in FENCING_KINDS:
        lines += [*_kind(kind["spec"]), ""]
    return "\n".join(lines)


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """All fields below a schema: path, schema, and whether it is required."""
    for name, held in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, held, name in schema.get("required", ())
        inner, suffix = _inside(held)
        yield from fields(inner, where + suffix)


def schema_of(spec: Mapping[str, Any]) -> Schema:
    """The schema of a kind's one version."""
    (version,) = spec["versions"]
    return version["schema"]["openAPIV3Schema"]


def _inside(schema: Schema) -> tuple[Schema, str]:
    """What a list or a map holds, however deep, and how its path ends."""
    suffix = ""
    while "items" in schema or "additionalProperties" in schema:
        suffix += "[]" if "items" in schema else "{}"
        schema = schema.get("items") or schema["additionalProperties"]
    return schema, suffix


def _kind(spec: Mapping[str, Any]) -> Iterator[str]:
    schema = schema_of(spec)
    yield from (f"## {spec['names']['kind']}", "", text(schema.get("description", "")), "")
    scope = "of the whole cluster" if spec["scope"] == "Cluster" else "of a namespace"
    yield from (f"`apiVersion: {spec['group']}/{spec['versions'][0]['name']}`, {scope}.", "")
    yield from ("| field | type | what it is |", "|---|---|---|")
    for path, held, required in fields(schema):
        if path.partition(".")[0] in ("spec", "status"):
            shown = f"**`{path}`**" if required else f"`{path}`"
            yield f"| {shown} | {cell(_type(held))} | {cell(_about(held))} |"


def _about(schema: Schema) -> str:
    rules = "; ".join(rule["message"] for rule in _inside(schema)[0].get("x-kubernetes-validations", ()))
    return " ".join(each for each in (schema.get("description", ""), f"Rule: {rules}." if rules else "") if each)


def _type(schema: Schema) -> str:
    inner, suffix = _inside(schema)
    shown = " or ".join(inner["enum"]) if "enum" in inner else _plain(inner)
    bounds = [f"{word} {inner[key]}" for key, word in _BOUNDS.items() if key in inner]
    bounds += [f"at most {schema['maxItems']} items"] if "maxItems" in schema else []
    kinds = "".join({"[]": "list of ", "{}": "map of "}[suffix[at : at + 2]] for at in range(0, len(suffix), 2))
    return f"{kinds}{shown}{f' ({chr(44).join(bounds)})' if bounds else ''}".replace(",", ", ")


def _plain(schema: Schema) -> str:
    """A format says more than a type where it is no width of a number."""
    return "time" if schema.get("format") == "date-time" else schema.get("type", "any")


_BOUNDS = {"minimum": "at least", "maximum": "at most", "maxLength": "characters at most", "pattern": "like"}
