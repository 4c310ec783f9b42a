"""From protobuf to JSON: messages of the Kubernetes API, by the facts of their fields. Pure.

What Go would leave out of the JSON is left out here: a zero in a field that says nothing when it is zero.
Unknown fields are skipped, as protobuf demands.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeAlias

import msgspec

from mooring.apiserver.encodings.protobuf.wire import Malformed, Value, fields, integer, raw, text
from mooring.apiserver.errors import Obj
from mooring.apiserver.schema.facts import Field, message

Reader: TypeAlias = Callable[[Value], Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = "apiextensions.v1.JSONSchemaProps"


def read_message(name: str, data: Value) -> Obj:
    """The JSON form of a message. Raises `Malformed`."""
    setters = _setters(name)
    obj: Obj = {}
    for number, value in fields(raw(data)):
        if (setter := setters.get(number)) is not None:
            setter(obj, value)
    return obj


@cache
def _setters(name: str) -> dict[int, Callable[[Obj, Value], None]]:
    return {field.number: _setter(field) for field in message(name).own}


def _setter(field: Field) -> Callable[[Obj, Value], None]:
    read, name, keep = _reader(field.type), field.name, field.pointer
    drop_zero = field.omit

    def inline(obj: Obj, value: Value) -> None:
        obj.update(read(value))

    def one(obj: Obj, value: Value) -> None:
        found = read(value)
        if keep or not (found is None or (drop_zero and found in (0, ""))):
            obj[name] = found

    def listed(obj: Obj, value: Value) -> None:
        obj.setdefault(name, []).append(read(value))

    def mapped(obj: Obj, value: Value) -> None:
        entry = dict(fields(raw(value)))
        obj.setdefault(name, {})[text(entry.get(1, b""))] = read(entry.get(2, b""))

    return inline if field.inline else {"one": one, "list": listed, "map": mapped}[field.shape]


def _reader(kind: str) -> Reader:
    return _READERS.get(kind) or (lambda value: read_message(kind, value))


def _base64(value: Value) -> str:
    return b64encode(raw(value)).decode()


def _double(value: Value) -> float:
    try:
        number = struct.unpack("<d", raw(value))[0]
    except struct.error as error:
        raise Malformed("a number does not have eight bytes") from error
    if not math.isfinite(number):
        raise Malformed("a number is none that JSON has a word for")
    return number


def _moment(value: Value) -> datetime | None:
    parts = dict(fields(raw(value)))
    seconds, nanos = integer(parts.get(1, 0)), integer(parts.get(2, 0))
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000) if parts else None
    except OverflowError as error:
        raise Malformed("a time is out of range") from error


def _time(value: Value) -> str | None:
    moment = _moment(value)
    return moment and f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def _micro_time(value: Value) -> str | None:
    moment = _moment(value)
    return moment and f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _json(value: Value) -> Any:
    return json_value(raw(dict(fields(raw(value))).get(1, b"")))


def json_value(data: bytes) -> Any:
    """The JSON in bytes; nothing is null. Raises `Malformed`."""
    try:
        return msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("a field that holds JSON holds none") from error


def _quantity(value: Value) -> str:
    return text(dict(fields(raw(value))).get(1, b""))


def _int_or_string(value: Value) -> int | str:
    parts = dict(fields(raw(value)))
    return text(parts.get(3, b"")) if parts.get(1) == 1 else integer(parts.get(2, 0))


def _texts(value: Value) -> list[str]:
    return [text(each) for number, each in fields(raw(value)) if number == 1]


def _schema_or_bool(value: Value) -> Any:
    parts = dict(fields(raw(value)))
    return read_message(_SCHEMA, parts[2]) if 2 in parts else bool(integer(parts.get(1, 0)))


def _schema_or_array(value: Value) -> Any:
    parts = list(fields(raw(value)))
    several = [read_message(_SCHEMA, each) for number, each in parts if number == 2]
    return several or read_message(_SCHEMA, dict(parts).get(1, b""))


def _schema_or_texts(value: Value) -> Any:
    parts = list(fields(raw(value)))
    one = dict(parts).get(1)
    return (
        read_message(_SCHEMA, one)
        if one is not None
        else [text(each) for number, each in parts if number == 2]
    )


def _truth(value: Value) -> bool:
    return bool(integer(value))


_READERS: dict[str, Reader] = {
    "string": text,
    "int32": integer,
    "int64": integer,
    "bool": _truth,
    "bytes": _base64,
    "double": _double,
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "RawExtension": _json,
    "FieldsV1": _json,
    "JSON": _json,
    "ExtraValue": _texts,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrArray": _schema_or_array,
    "JSONSchemaPropsOrStringArray": _schema_or_texts,
}
