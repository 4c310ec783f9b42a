"""What `kubectl explain` says of the kinds of fencing.mooring.dev."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mooring.controllers.fencing import descriptions
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube.custom_kinds import TEXT, described, fields, listed, mapped

TEXTS = {
    "StorageFence": descriptions.STORAGE,
    "FencePolicy": descriptions.POLICY,
    "FenceMechanism": descriptions.MECHANISM,
    "NodeFence": descriptions.FENCE,
    "FenceRemediation": descriptions.REMEDIATION,
    "FenceRemediationTemplate": descriptions.TEMPLATE,
}


def schema_of(kind: dict[str, Any]) -> dict[str, Any]:
    (version,) = kind["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def paths(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field's path, and its schema."""
    yield path, schema
    while inner := schema.get("items") or schema.get("additionalProperties"):
        schema = inner
    for name, field in schema.get("properties", {}).items():
        yield from paths(field, f"{path}.{name}".lstrip("."))


@pytest.mark.parametrize("kind", FENCING_KINDS, ids=lambda kind: kind["spec"]["names"]["kind"])
def test_every_kind_and_every_field_has_a_text_and_every_text_a_field(kind: dict[str, Any]):
    told = {path: field.get("description", "") for path, field in paths(schema_of(kind))}
    assert [path for path, text in told.items() if not text.endswith(".")] == []
    assert told == TEXTS[kind["spec"]["names"]["kind"]]


def test_the_text_of_a_list_or_map_is_its_own_and_not_of_what_it_holds():
    schema = fields(many=listed(fields(a=TEXT), 3), named=mapped(fields(b=TEXT)))
    told = described(schema, {"many": "M.", "many.a": "A.", "named": "N.", "named.b": "B."})
    many, named = told["properties"]["many"], told["properties"]["named"]
    assert (many["description"], "description" in many["items"]) == ("M.", False)
    assert many["items"]["properties"]["a"]["description"] == "A."
    assert (named["description"], "description" in named["additionalProperties"]) == ("N.", False)
    assert named["additionalProperties"]["properties"]["b"]["description"] == "B."


def test_a_shared_schema_is_not_changed():
    schema = fields(a=TEXT)
    described(schema, {"a": "A."})
    assert schema == fields(a={"type": "string"})
