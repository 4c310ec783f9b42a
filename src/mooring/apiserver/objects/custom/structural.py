"""Structural schemas of custom objects: pruning, defaulting and validation. Pure.

The rules are those of upstream's structural schemas (OpenAPI v3 with `x-kubernetes-*`), and so are the words
of the errors. Rules in CEL (`x-kubernetes-validations`) are not run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any, cast

from mooring.apiserver.errors import FieldError, Obj, duplicate, invalid_value, required, unsupported
from mooring.apiserver.objects.custom import patterns
from mooring.apiserver.values.hashable import identity, ranks
from mooring.apiserver.work_limit import spend
from mooring.kube.quantity import InvalidQuantity, parse_quantity

_IDENTITY = ("apiVersion", "kind", "metadata")
_KEEP = "x-kubernetes-preserve-unknown-fields"


def pruned(schema: Obj, value: Any, unknown: list[str], path: str = "", *, root: bool = True) -> Any:
    """`value` without the fields that the schema does not name; their paths are added to `unknown`.

    A null in a field that is not nullable and has a default is dropped, too, so that the default takes its
    place.
    """
    if isinstance(value, list):
        items = _object(schema.get("items"))
        entries = cast(list[Any], value)
        return [
            pruned(items, each, unknown, f"{path}[{index}]", root=False) for index, each in enumerate(entries)
        ]
    if not isinstance(value, dict):
        return value
    kept: Obj = {}
    for name, each in cast(Obj, value).items():
        place = f"{path}.{name}" if path else name
        inner = _schema_of(schema, name)
        if (root or schema.get("x-kubernetes-embedded-resource")) and name in _IDENTITY:
            kept[name] = each
        elif inner is None:
            if schema.get(_KEEP):
                kept[name] = each
            else:
                unknown.append(place)
        elif each is not None or inner.get("nullable") or "default" not in inner:
            kept[name] = pruned(inner, each, unknown, place, root=False)
    return kept


def _schema_of(schema: Obj, name: str) -> Obj | None:
    properties = _object(schema.get("properties"))
    if name in properties:
        return _object(properties[name])
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return cast(Obj, additional)
    return {_KEEP: True} if additional is True else None


def _object(value: Any) -> Obj:
    return cast(Obj, value) if isinstance(value, dict) else {}


def fill_defaults(schema: Obj, value: Any) -> None:
    """Sets every missing field that has a default, in place, also inside defaults."""
    if isinstance(value, list):
        for each in cast(list[Any], value):
            fill_defaults(_object(schema.get("items")), each)
    if not isinstance(value, dict):
        return
    obj = cast(Obj, value)
    for name, inner in _object(schema.get("properties")).items():
        if name not in obj and "default" in inner:
            obj[name] = deepcopy(inner["default"])
    for name, each in obj.items():
        if (inner := _schema_of(schema, name)) is not None:
            fill_defaults(inner, each)


def value_errors(schema: Obj, value: Any, path: str = "") -> list[FieldError]:
    """All errors of a value against its schema."""
    spend(2)
    if value is None and schema.get("nullable"):
        return []
    wrong = _type_error(schema, value, path)
    if wrong is not None:
        return [wrong]
    errors: list[FieldError] = []
    spend(len(schema.get("enum") or ()) >> 4)
    if "enum" in schema and value not in schema["enum"]:
        errors.append(unsupported(path, value, [str(each) for each in schema["enum"]]))
    if isinstance(value, str):
        errors += _text_errors(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        errors += _number_errors(schema, value, path)
    elif isinstance(value, list):
        errors += _list_errors(schema, cast(list[Any], value), path)
    elif isinstance(value, dict):
        errors += _object_errors(schema, cast(Obj, value), path)
    return errors + _combined_errors(schema, value, path)


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def type_name(value: Any) -> str:
    """The JSON type of a value, as messages say it."""
    if value is None:
        return "null"
    return next(
        name for name in ("boolean", "integer", "number", "string", "array", "object") if _TYPES[name](value)
    )


def _type_error(schema: Obj, value: Any, path: str) -> FieldError | None:
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fits, wanted = isinstance(value, str) or _is_integer(value), "integer,string"
    else:
        fits = wanted is None or _TYPES.get(str(wanted), lambda value: True)(value)
    if fits:
        return None
    actual = type_name(value)
    detail = f'{path or "value"} in body must be of type {wanted}: "{actual}"'
    return FieldError("FieldValueTypeInvalid", path, f'Invalid value: "{actual}": {detail}')


def _text_errors(schema: Obj, value: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(value) > schema.get("maxLength", math.inf):
        errors.append(
            FieldError(
                "FieldValueTooLong", path, f"Too long: may not be more than {schema['maxLength']} bytes"
            )
        )
    if len(value) < schema.get("minLength", 0):
        errors.append(
            invalid_value(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
        )
    if schema.get("pattern") and not patterns.matches(schema["pattern"], value):
        errors.append(invalid_value(path, value, f"{path} in body should match '{schema['pattern']}'"))
    format_ = schema.get("format", "")
    if format_ in _FORMATS and not _FORMATS[format_](value):
        errors.append(invalid_value(path, value, f'{path} in body must be of type {format_}: "{value}"'))
    return errors


def _is_moment(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_quantity(value: str) -> bool:
    try:
        parse_quantity(value)
    except InvalidQuantity:
        return False
    return True


_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _is_moment,
    "quantity": _is_quantity,
    "uuid": lambda value: _UUID.fullmatch(value) is not None,
}


def _number_errors(schema: Obj, value: float, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
        orequal = "" if schema.get("exclusiveMinimum") else " or equal to"
        errors.append(invalid_value(path, value, f"{path} in body should be greater than{orequal} {least}"))
    if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
        orequal = "" if schema.get("exclusiveMaximum") else " or equal to"
        errors.append(invalid_value(path, value, f"{path} in body should be less than{orequal} {most}"))
    if step and not _is_multiple(value, step):
        errors.append(invalid_value(path, value, f"{path} in body should be a multiple of {step}"))
    return errors


def _is_multiple(value: float, step: float) -> bool:
    try:
        return math.isfinite(value) and float(value / step).is_integer()
    except OverflowError:  # of a whole number that no float holds
        return isinstance(step, int) and value % step == 0


def _list_errors(schema: Obj, value: list[Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(value) > schema.get("maxItems", math.inf):
        detail = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        errors.append(FieldError("FieldValueTooMany", path, detail))
    if len(value) < schema.get("minItems", 0):
        errors.append(
            invalid_value(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
        )
    for index, each in enumerate(value):
        errors += value_errors(_object(schema.get("items")), each, f"{path}[{index}]")
    return errors + _repetitions(schema, value, path)


def _repetitions(schema: Obj, value: list[Any], path: str) -> list[FieldError]:
    """Errors for repeated entries of a set, or of a map by its keys."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    if kind == "map":
        names: list[Any] = [{key: _object(each).get(key) for key in keys} for each in value]
    elif kind == "set" or schema.get("uniqueItems"):
        names = value
    else:
        return []
    first = ranks(names)
    return [
        duplicate(f"{path}[{index}]", each)
        for index, each in enumerate(names)
        if first[identity(each)] < index
    ]


def _object_errors(schema: Obj, value: Obj, path: str) -> list[FieldError]:
    prefix = f"{path}." if path else ""
    errors = [required(prefix + name) for name in schema.get("required", ()) if name not in value]
    if len(value) > schema.get("maxProperties", math.inf):
        detail = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        errors.append(FieldError("FieldValueTooMany", path, detail))
    if len(value) < schema.get("minProperties", 0):
        detail = f"{path} in body should have at least {schema['minProperties']} properties"
        errors.append(invalid_value(path, len(value), detail))
    for name, each in value.items():
        inner = _schema_of(schema, name)
        if inner is not None and not (not path and name in _IDENTITY):
            errors += value_errors(inner, each, prefix + name)
    return errors


def _combined_errors(schema: Obj, value: Any, path: str) -> list[FieldError]:
    errors = [error for each in schema.get("allOf", ()) for error in value_errors(each, value, path)]
    if "anyOf" in schema and all(value_errors(each, value, path) for each in schema["anyOf"]):
        errors.append(_unmet(path, value, "must validate at least one schema (anyOf)"))
    if "oneOf" in schema and sum(not value_errors(each, value, path) for each in schema["oneOf"]) != 1:
        errors.append(_unmet(path, value, "must validate one and only one schema (oneOf)"))
    if "not" in schema and not value_errors(schema["not"], value, path):
        errors.append(_unmet(path, value, "must not validate the schema (not)"))
    return errors


def _unmet(path: str, value: Any, what: str) -> FieldError:
    place = f'"{path}"' if path else '"<nil>"'
    return invalid_value(path, value, f"{place} {what}")
