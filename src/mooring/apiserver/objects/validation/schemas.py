"""Schemas of custom kinds: that they are structural, and use nothing that upstream does not support.

Rules in CEL (`x-kubernetes-validations`) are not compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.objects.custom import patterns, structural
from mooring.apiserver.objects.validation.checks import Errors, at, entries, objects, part

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_KEEP, _EMBEDDED, _EITHER = (
    f"x-kubernetes-{name}" for name in ("preserve-unknown-fields", "embedded-resource", "int-or-string")
)
_LIST, _KEYS, _MAP, _RULES = (
    f"x-kubernetes-{name}" for name in ("list-type", "list-map-keys", "map-type", "validations")
)
_IDENTITY = ("apiVersion", "kind", "metadata")
_UNSUPPORTED = {"id": "id", "$schema": "schema", "$ref": "$ref", "patternProperties": "patternProperties",
                "dependencies": "dependencies", "additionalItems": "additionalItems",
                "definitions": "definitions"}  # fmt: skip
_AT_ROOT = frozenset({
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
    "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items", "properties",
    "externalDocs", "example", _KEEP, _RULES,
})  # fmt: skip
_BEFORE_TYPE = ("id", "$schema", "$ref")
_LOGIC = ("allOf", "oneOf", "anyOf")


def schema_errors(schema: Obj, *, has_status: bool) -> Errors:
    """The errors of a version's schema; `has_status`: whether the kind has a status subresource."""
    errors = [*_root_errors(schema)] if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden_field("nullable", "nullable cannot be true at the root"))
    unsupported_name = next(
        (name for each in _every(schema) for name in _UNSUPPORTED if each.get(name)), None
    )
    if unsupported_name is None and all(each.get(_KEEP) is not False for each in _every(schema)):
        wrong = sorted([*_structure(schema, "root"), *_completeness(schema, schema)], key=str)
        errors += wrong or _default_errors(schema)
    errors += _openapi_errors(schema, root=True)
    if not errors and unsupported_name is not None:
        detail = f"OpenAPIV3Schema '{_UNSUPPORTED[unsupported_name]}' is not supported"
        errors.append(invalid_value("", "", detail))
    return errors


def _schema(value: Any) -> Obj | None:
    return cast(Obj, value) if isinstance(value, dict) else None


def _below(schema: Obj) -> Iterator[tuple[str, Obj]]:
    """The schemas that a schema is made of, each with its path."""
    if (inner := _schema(schema.get("additionalProperties"))) is not None:
        yield "additionalProperties", inner
    for name, inner in part(schema, "properties").items():
        yield f"properties[{name}]", inner
    if (inner := _schema(schema.get("not"))) is not None:
        yield "not", inner
    for logic in _LOGIC:
        for index, inner in enumerate(objects(schema.get(logic))):
            yield f"{logic}[{index}]", inner
    for name, inner in part(schema, "definitions").items():
        yield f"definitions[{name}]", inner
    if (inner := _schema(schema.get("items"))) is not None:
        yield "items", inner
    elif isinstance(schema.get("items"), list):
        for index, inner in enumerate(objects(schema["items"])):
            yield f"items[{index}]", inner
    for name, value in part(schema, "dependencies").items():
        if (inner := _schema(value)) is not None:
            yield f"dependencies[{name}]", inner


def _every(schema: Obj) -> Iterator[Obj]:
    yield schema
    for _, inner in _below(schema):
        yield from _every(inner)


def _root_errors(schema: Obj) -> Errors:
    """With a status subresource the root of a schema describes an object and no more."""
    fields = [field for field, value in schema.items() if value not in (None, False, "", [], {}, 0)]
    early = [field for field in _BEFORE_TYPE if field in fields]
    kind = schema.get("type") or ""
    detail = "fields are allowed at the root of the schema if the status subresource is enabled"
    if not early and kind and kind != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid_value("type", kind, detail)]
    outside = [*early, *(field for field in fields if field not in _AT_ROOT and field not in early)]
    return [invalid_value("", schema, f"only {sorted(_AT_ROOT)} {detail}")] if outside else []


def _structure(schema: Obj, level: str) -> Iterator[FieldError]:
    """The invariants of structural schemas: every value has a type, and is described in one place."""
    kind, properties = schema.get("type") or "", part(schema, "properties")
    loose, either, embedded = (bool(schema.get(field)) for field in (_KEEP, _EITHER, _EMBEDDED))
    additional = schema.get("additionalProperties")
    if kind == "array" and schema.get("items") is None:
        yield required("items", "must be specified")
    if (items := _schema(schema.get("items"))) is not None:
        yield from at("items", _structure(items, "item"))
    for name, inner in properties.items():
        yield from at(f"properties[{name}]", _structure(inner, "field"))
    if additional is not None and level == "root":
        yield forbidden_field("additionalProperties", "must not be used at the root")
    if (inner := _schema(additional)) is not None:
        yield from at("additionalProperties", _structure(inner, "field"))
    if either and loose:
        yield invalid_value(_KEEP, True, f"must be false if {_EITHER} is true")
    if either and embedded:
        yield invalid_value(_EMBEDDED, True, f"must be false if {_EITHER} is true")
    yield from _values(schema, skip_either=True)
    if embedded and kind != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        yield invalid_value("type", kind, detail) if kind else required("type", detail)
    elif not kind and not either and not loose:
        yield required("type", _NO_TYPE[level])
    if embedded and additional is not None:
        yield forbidden_field("additionalProperties", f"must not be used if {_EMBEDDED} is set")
    if level == "root" and kind and kind != "object":
        yield invalid_value("type", kind, "must be object at the root")
    if level == "root" or embedded:
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                yield invalid_value(
                    f"properties[{name}].type", properties[name].get("type") or "", "must be string"
                )
    if "metadata" in properties:
        yield from at("properties[metadata]", _metadata(properties["metadata"], level, embedded=embedded))
    if embedded and not loose and not properties:
        yield required("properties", f"must not be empty if {_EMBEDDED} is true without {_KEEP}")


_NO_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _metadata(schema: Obj, level: str, *, embedded: bool) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if (level == "root" or embedded) and kind != "object":
        yield invalid_value("type", kind, "must be object")
    known = set(part(schema, "properties")) <= {"name", "generateName"}
    given = {field for field, value in schema.items() if value} - {
        "type",
        "default",
        *(["properties"] if known else []),
    }
    if level == "root" and given:
        detail = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield forbidden_field("", detail)


_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def _values(schema: Obj, *, skip_either: bool = False) -> Iterator[FieldError]:
    """The value validations of a schema (`allOf`, `not`, ...), which may not repeat what the structure
    says."""
    for logic in ("anyOf", "allOf", "oneOf"):
        parts = objects(schema.get(logic))
        if logic == "anyOf" and skip_either and parts == _INT_OR_STRING:
            continue
        for index, inner in enumerate(parts):
            nested = inner
            if logic == "allOf" and skip_either and not index and inner.get("anyOf") == _INT_OR_STRING:
                nested = {key: value for key, value in inner.items() if key != "anyOf"}
            yield from at(f"{logic}[{index}]", _nested(nested))
    if (inner := _schema(schema.get("not"))) is not None:
        yield from at("not", _nested(inner))
    if pattern := schema.get("pattern"):
        try:
            patterns.check(pattern)
        except patterns.BadPattern as error:
            detail = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            yield invalid_value("pattern", pattern, detail)


_NESTED: Sequence[tuple[str, str]] = (
    ("type", "must be empty to be structural"), ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"), ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"), (_KEEP, "must be false to be structural"),
    (_EMBEDDED, "must be false to be structural"), (_EITHER, "must be false to be structural"),
    (_KEYS, "must be empty to be structural"), (_LIST, "must be undefined to be structural"),
    (_MAP, "must be undefined to be structural"), (_RULES, "must be empty to be structural"),
)  # fmt: skip


def _nested(schema: Obj) -> Iterator[FieldError]:
    yield from _values(schema)
    if (items := _schema(schema.get("items"))) is not None:
        yield from at("items", _nested(items))
    for name, inner in part(schema, "properties").items():
        yield from at(f"properties[{name}]", _nested(inner))
    if schema.get("additionalProperties") not in (None, False):
        yield forbidden_field("additionalProperties", "must be undefined to be structural")
    for field, detail in _NESTED:
        if schema.get(field) is not None if field in ("default", _LIST, _MAP) else schema.get(field):
            yield forbidden_field(field, detail)
    if "metadata" in part(schema, "properties"):
        yield forbidden_field("properties[metadata]", "must not be specified in a nested context")


def _completeness(schema: Obj, structure: Obj | None, path: str = "") -> Iterator[FieldError]:
    """Yields an error for each field that a value validation names and the structure lacks."""
    inner_schema = _schema(schema.get("not"))
    inners = [("not", inner_schema)] if inner_schema is not None else []
    inners += [
        (f"{logic}[{i}]", each) for logic in _LOGIC for i, each in enumerate(objects(schema.get(logic)))
    ]
    for where, inner in inners:
        yield from _nested_completeness(inner, structure, path, where)


def _nested_completeness(schema: Obj, structure: Obj | None, path: str, where: str) -> Iterator[FieldError]:
    if structure is None:
        yield required(path, f"because it is defined in {where}")
        return
    yield from _completeness(schema, structure, path)
    dot = f"{path}." if path else ""
    if (items := _schema(schema.get("items"))) is not None:
        yield from _nested_completeness(
            items, _schema(structure.get("items")), f"{dot}items", f"{where}.items"
        )
    for name, inner in part(schema, "properties").items():
        known = part(structure, "properties").get(name)
        place = f"properties[{name}]"
        yield from _nested_completeness(inner, known, f"{dot}{place}", f"{where}.{place}")


def _default_errors(schema: Obj, path: str = "") -> list[FieldError]:
    """Defaults that their own schema refuses."""
    errors: list[FieldError] = []
    if schema.get("default") is not None:
        errors += at("default", structural.value_errors(schema, schema["default"]))
    for where, inner in _below(schema):
        if not where.startswith(("not", *_LOGIC)):
            errors += at(where, _default_errors(inner))
    return errors


def _openapi_errors(
    schema: Obj, *, root: bool = False, forbids_default: str = "", meta: bool = False
) -> list[FieldError]:
    """The features that upstream refuses in schemas."""
    errors = _standard_errors(schema, forbids_default=forbids_default, meta=meta)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden_field("uniqueItems", detail))
    additional, properties = schema.get("additionalProperties"), part(schema, "properties")
    if additional is not None and properties and additional is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden_field("additionalProperties", detail))
    for where, inner in _below(schema):
        named = where.removeprefix("properties[")[:-1] if where.startswith("properties[") else ""
        is_meta = (root or bool(schema.get(_EMBEDDED))) and named in _IDENTITY
        reason = f" in top-level {named}" if root and is_meta else forbids_default
        if meta and where == "additionalProperties":
            reason = " inside additionalProperties applying to object metadata"
        errors += at(where, _openapi_errors(inner, forbids_default=reason, meta=meta or is_meta))
    return [*errors, *_extension_errors(schema), *_rule_errors(schema)]


def _standard_errors(schema: Obj, *, forbids_default: str, meta: bool) -> list[FieldError]:
    kind = schema.get("type") or ""
    errors: list[FieldError] = [unsupported("type", kind, _TYPES)] if kind and kind not in _TYPES else []
    if schema.get("default") is not None and forbids_default:
        errors.append(forbidden_field("default", f"must not be set{forbids_default}"))
    for field in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        present = (
            schema.get(field) is not None
            if field in ("additionalItems", "$ref", "dependencies")
            else schema.get(field)
        )
        if present:
            errors.append(forbidden_field(field, f"{field} is not supported"))
    if kind == "null":
        errors.append(forbidden_field("type", "type cannot be set to null, use nullable as an alternative"))
    if isinstance(schema.get("items"), list) and schema["items"]:
        errors.append(forbidden_field("items", "items must be a schema object and not an array"))
    if meta and schema.get(_EMBEDDED):
        errors.append(forbidden_field(_EMBEDDED, "must not be used inside of resource meta"))
    return errors


def _extension_errors(schema: Obj) -> list[FieldError]:
    """The extensions that say how lists and maps merge."""
    kind, lists, maps = schema.get("type") or "", schema.get(_LIST), schema.get(_MAP)
    errors: list[FieldError] = []
    if schema.get(_KEEP) is False:
        errors.append(invalid_value(_KEEP, False, "must be true or undefined"))
    for given, wanted, field, allowed in (
        (maps, "object", _MAP, ("atomic", "granular")), (lists, "array", _LIST, ("atomic", "set", "map")),
    ):  # fmt: skip
        if given is not None and kind != wanted:
            detail = f"must be {wanted} if {field} is specified"
            errors.append(invalid_value("type", kind, detail) if kind else required("type", detail))
        elif field == _LIST and given == "set":
            errors += _set_errors(schema)
        if given is not None and given not in allowed:
            errors.append(unsupported(field, given, allowed))
    if schema.get(_KEYS) and lists != "map":
        detail = f"must be map if {_KEYS} is non-empty"
        errors.append(required(_LIST, detail) if lists is None else invalid_value(_LIST, lists, detail))
    return [*errors, *(_map_errors(schema) if lists == "map" else []), *_key_errors(schema)]


def _set_errors(schema: Obj) -> list[FieldError]:
    items = _schema(schema.get("items")) or {}
    detail = f"must be atomic as item of a list with {_LIST}=set"
    if items.get("type") == "array" and items.get(_LIST) not in (None, "atomic"):
        return [invalid_value(f"items.{_LIST}", items.get(_LIST), detail)]
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        return [invalid_value(f"items.{_MAP}", items.get(_MAP), detail)]
    return []


def _map_errors(schema: Obj) -> list[FieldError]:
    keys, items = entries(schema, _KEYS), schema.get("items")
    errors: list[FieldError] = []
    if not keys:
        errors.append(required(_KEYS, f"must not be empty if {_LIST} is map"))
    if items is None:
        return [*errors, required("items", f"must have a schema if {_LIST} is map")]
    inner = _schema(items)
    if inner is None:
        return [*errors, invalid_value("items", items, f"must only have a single schema if {_LIST} is map")]
    if inner.get("type") != "object":
        detail = f"must be object if parent array's {_LIST} is map"
        return [*errors, invalid_value("items.type", inner.get("type") or "", detail)]
    first: dict[Any, int] = {}
    for index, key in enumerate(keys):
        known = part(inner, "properties").get(key)
        if known is None:
            errors.append(invalid_value(_KEYS, keys, "entries must all be names of item properties"))
        elif known.get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LIST} is map"
            errors.append(invalid_value(f"items.properties[{key}].type", inner.get("type"), detail))
        if first.setdefault(key, index) < index:
            errors.append(invalid_value(_KEYS, keys, "must not contain duplicate entries"))
    return errors


def _key_errors(schema: Obj) -> list[FieldError]:
    """The keys of a list's entries are always there."""
    items, lists = _schema(schema.get("items")), schema.get(_LIST)
    if items is None or lists not in ("set", "map"):
        return []
    errors: list[FieldError] = []
    if items.get("nullable"):
        errors.append(forbidden_field("items.nullable", f"cannot be nullable when {_LIST} is {lists}"))
    for key in entries(schema, _KEYS) if lists == "map" else ():
        known, place = part(items, "properties").get(key), f"items.properties[{key}]"
        if known is None:
            continue
        if key not in entries(items, "required") and known.get("default") is None:
            detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
            errors.append(required(f"{place}.default", detail))
        if known.get("nullable"):
            detail = f"this property is in {_KEYS}, so it cannot be nullable"
            errors.append(forbidden_field(f"{place}.nullable", detail))
    return errors


_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def _rule_errors(schema: Obj) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(objects(schema.get(_RULES))):
        text, message, place = rule.get("rule") or "", rule.get("message") or "", f"{_RULES}[{index}]"
        if not text.strip():
            errors.append(required(f"{place}.rule", "rule is not specified"))
        elif message and not message.strip():
            errors.append(invalid_value(f"{place}.message", message, "must be non-empty if specified"))
        elif any(mark in message.strip() for mark in "\n\r"):
            errors.append(invalid_value(f"{place}.message", message, "must not contain line breaks"))
        elif any(mark in text.strip() for mark in "\n\r") and not message:
            detail = "message must be specified if rule contains line breaks"
            errors.append(required(f"{place}.message", detail))
        if (expression := rule.get("messageExpression")) and not expression.strip():
            errors.append(
                required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")
            )
        if (reason := rule.get("reason")) is not None and reason not in _REASONS:
            errors.append(unsupported(f"{place}.reason", reason, _REASONS))
    return errors
