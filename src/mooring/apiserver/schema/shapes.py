"""The shape of objects of the API's own kinds, as upstream gets it by reading JSON into Go types. Pure.

Nulls and fields that a type does not have are dropped, quantities are printed canonically, and a value of the
wrong type is an error in the words of Go's JSON decoder. A zero is dropped where Go leaves it out when it
writes the type back, and added where Go writes it, so that objects which mean the same are the same. The
fields are the facts of `facts`.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, TypeAlias, cast

from mooring.apiserver.schema.facts import Field, message
from mooring.apiserver.schema.quantities import canonical
from mooring.kube.quantity import InvalidQuantity

Obj: TypeAlias = dict[str, Any]
_SCHEMA = "apiextensions.v1.JSONSchemaProps"
Shaper: TypeAlias = Callable[[Any, str, list[str]], Any]
"""A value, its path, and where the paths of unknown fields go, to the value as it is kept."""


class WrongShape(ValueError):
    """A value is not of the type of its field; the message is the one that Go gives."""


class _Type(NamedTuple):
    """How the values of one message are read."""

    shapers: Mapping[str, Shaper]
    plain: Mapping[str, type]
    """The fields whose values are taken as they are if they are of this type: most are."""
    omitted: frozenset[str]
    """The fields whose zero is left out."""
    zeroes: Sequence[tuple[str, Callable[[], Any]]]
    """The fields whose zero is written."""


def shaped(name: str, obj: Obj, unknown: list[str], path: str = "", *, zeroes: bool = True) -> Obj:
    """`obj` with the fields of message `name` only; the paths of others are added to `unknown`. Raises
    `WrongShape`.

    An object with metadata may say its kind and apiVersion. Without `zeroes` the zeroes stay as they were
    sent: in an apply they are meant.
    """
    known, prefix = _type(name, zeroes), f"{path}." if path else ""
    shapers, plain, omitted = known.shapers, known.plain, known.omitted
    made: Obj = {}
    for key, value in obj.items():
        if type(value) is plain.get(key):
            if value or key not in omitted:
                made[key] = value
        elif (shaper := shapers.get(key)) is None:
            unknown.append(prefix + key)
        elif value is not None:
            kept = shaper(value, prefix + key, unknown)
            if kept or (key not in omitted and kept is not None):
                made[key] = kept
    for key, zero in known.zeroes:
        if key not in made:
            made[key] = zero()
    return made


def zero_of(name: str) -> Obj:
    """A message with all fields at their defaults."""
    return shaped(name, {}, [])


@cache
def _type(name: str, zeroes: bool) -> _Type:
    fields = message(name).fields
    short = name.rpartition(".")[2]
    shapers = {field.name: _shaper(field, short, zeroes) for field in fields.values()}
    off = _OFF.get(short, ())
    shapers |= {field: _read_only(shapers[field]) for field in off if field in shapers}
    if "metadata" in fields:
        identity = _scalar("string", "TypeMeta")
        shapers = {"kind": identity, "apiVersion": identity} | shapers
    plain = {
        field.name: _PLAIN[field.type]
        for field in fields.values()
        if field.shape == "one" and field.type in _PLAIN and field.name not in off
    }
    if not zeroes:
        return _Type(shapers, plain, frozenset(), ())
    omitted = frozenset(field.name for field in fields.values() if field.omit and not _is_struct(field))
    written = [(field.name, _zero(field)) for field in fields.values() if not field.pointer]
    return _Type(
        shapers, plain, omitted, [(key, zero) for key, zero in written if key not in omitted and zero]
    )


_OFF: Mapping[str, Sequence[str]] = {
    "Lifecycle": ("stopSignal",),
    "PodSpec": ("schedulingGroup",),
    "VolumeProjection": ("clusterTrustBundle", "podCertificate"),
}
"""The fields of features that are off unless an operator asks for them: they are read, and dropped."""


def _read_only(shaper: Shaper) -> Shaper:
    def dropped(value: Any, path: str, unknown: list[str]) -> None:
        shaper(value, path, unknown)

    return dropped


def _is_struct(field: Field) -> bool:
    """Whether Go's `omitempty` has no meaning, because the value is a struct."""
    return field.shape == "one" and (field.type in ("Quantity", "RawExtension") or "." in field.type)


_PLAIN: Mapping[str, type] = {"string": str, "bool": bool}
_ZEROES: Mapping[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "Quantity": "0"}


def _zero(field: Field) -> Callable[[], Any] | None:
    """Makes the zero of a field, unless it is null."""
    if field.shape != "one":
        return None
    if "." in field.type:
        return partial(zero_of, field.type)
    zero = _ZEROES.get(field.type)
    return None if zero is None else lambda: zero


def _shaper(field: Field, owner: str, zeroes: bool) -> Shaper:
    one, kind, plain = _value(field.type, owner, zeroes), _go_type(field), "." not in field.type

    def listed(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, list):
            raise _mismatch(value, owner, path, f"[]{kind}")
        entries = cast(list[Any], value)
        return [
            one(each, f"{path}[{index}]", unknown) for index, each in enumerate(entries) if each is not None
        ]

    def mapped(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, owner, path, f"map[string]{kind}")
        entries = cast(Obj, value)
        if plain:
            return {key: one(each, path, unknown) for key, each in entries.items() if each is not None}
        return {key: one(each, f"{path}.{key}", unknown) for key, each in entries.items() if each is not None}

    return {"one": one, "list": listed, "map": mapped}[field.shape]


def _go_type(field: Field) -> str:
    *_, version, name = ("", *field.type.split("."))
    return {"double": "float64", "bytes": "[]uint8"}.get(name, f"{version}.{name}" if version else name)


def _value(kind: str, owner: str, zeroes: bool) -> Shaper:
    if kind in _PARSED:
        return _parsed(kind, owner)
    if kind in _TYPES:
        return _scalar(kind, owner)
    if kind.startswith("JSONSchemaPropsOr"):
        return _SCHEMA_OR[kind]
    if "." not in kind:
        return _as_it_is

    def nested(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            *_, version, name = kind.split(".")
            raise _mismatch(value, owner, path, f"{version}.{name}")
        return shaped(kind, cast(Obj, value), unknown, path, zeroes=zeroes)

    return nested


def _schema_or_bool(value: Any, path: str, unknown: list[str]) -> Any:
    """`additionalProperties` and `additionalItems`."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise WrongShape("boolean or JSON schema expected")
    return shaped(_SCHEMA, cast(Obj, value), unknown, path)


def _schema_or_list(value: Any, path: str, unknown: list[str]) -> Any:
    """`items`."""
    if isinstance(value, list):
        return [_schema_or_list(each, path, unknown) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        raise _mismatch(value, "JSONSchemaProps", path, "v1.JSONSchemaProps")
    return shaped(_SCHEMA, cast(Obj, value), unknown, path)


def _schema_or_names(value: Any, path: str, unknown: list[str]) -> Any:
    """`dependencies`."""
    if isinstance(value, list):
        if not all(isinstance(each, str) for each in cast(list[Any], value)):
            raise _mismatch(value, "JSONSchemaProps", path, "[]string")
        return cast(list[Any], value)
    return _schema_or_list(value, path, unknown)


_SCHEMA_OR: Mapping[str, Shaper] = {
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrStringArray": _schema_or_names,
}


def _as_it_is(value: Any, path: str, unknown: list[str]) -> Any:
    """JSON of a foreign schema, in which a null has a meaning."""
    return value


_TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("string", lambda value: isinstance(value, str)),
    "bool": ("bool", lambda value: isinstance(value, bool)),
    "int32": ("int32", lambda value: _is_whole(value) and -(2**31) <= value < 2**31),
    "int64": ("int64", lambda value: _is_whole(value) and -(2**63) <= value < 2**63),
    "double": ("float64", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "IntOrString": (
        "int32",
        lambda value: isinstance(value, str) or (_is_whole(value) and abs(value) < 2**31),
    ),
    "ExtraValue": ("v1.ExtraValue", lambda value: isinstance(value, list)),
}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _scalar(kind: str, owner: str) -> Shaper:
    go_type, fits = _TYPES[kind]

    def shape(value: Any, path: str, unknown: list[str]) -> Any:
        if not fits(value):
            raise _mismatch(value, owner, path, go_type)
        return value

    return shape


def _parsed(kind: str, owner: str) -> Shaper:
    parse = _PARSED[kind]

    def shape(value: Any, path: str, unknown: list[str]) -> Any:
        if kind == "Quantity" and isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise _mismatch(value, owner, path, "[]uint8" if kind == "bytes" else "string")
        return parse(value)

    return shape


def _quantity(text: str) -> str:
    try:
        return canonical(text)
    except InvalidQuantity as error:
        raise WrongShape(str(error)) from error


@lru_cache(maxsize=1024)
def _time(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text) if "T" in text else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise WrongShape(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse it')
    return text


_MICRO = re.compile(r".*\.\d{6}(Z|[-+]\d\d:\d\d)", re.ASCII)


def _micro_time(text: str) -> str:
    """A time to the microsecond: all six digits, as Go's layout has them."""
    if not _MICRO.fullmatch(text):
        raise WrongShape(f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse it')
    return _time(text)


def _base64(text: str) -> str:
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongShape("illegal base64 data") from error
    return text


_PARSED: Mapping[str, Callable[[str], str]] = {
    "Quantity": _quantity,
    "Time": _time,
    "MicroTime": _micro_time,
    "bytes": _base64,
}


def json_type(value: Any) -> str:
    """What Go calls the type of a JSON value."""
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(cast(type[Any], type(value)), "null")


def _mismatch(value: Any, owner: str, path: str, wanted: str) -> WrongShape:
    actual = json_type(value)
    if actual == "number" and wanted.startswith("int"):
        actual = f"number {value}"
    place = re.sub(r"\[\d+\]", "", path)
    return WrongShape(
        f"json: cannot unmarshal {actual} into Go struct field {owner}.{place} of type {wanted}"
    )
