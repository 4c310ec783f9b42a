"""From JSON to protobuf: messages of the Kubernetes API, by the facts of their fields. Pure.

Fields that the facts do not name are left out. A value must have the form of its field, as every stored
object's has.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, TypeAlias, cast

import msgspec

from mooring.apiserver.encodings.protobuf.wire import bytes_tag, double_tag, number_bytes, number_tag, sized
from mooring.apiserver.errors import Obj
from mooring.apiserver.schema.facts import Field, message

Writer: TypeAlias = Callable[[Any], bytes]
"""A value as its field without the tag: a length and bytes, or a number."""

_FIRST, _SECOND, _THIRD = bytes_tag(1), bytes_tag(2), bytes_tag(3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = "apiextensions.v1.JSONSchemaProps"


def write_message(name: str, obj: Obj) -> bytes:
    """An object as a message."""
    by_name, inline = _writers(name)
    parts = [write(value) for key, value in obj.items() if value is not None and (write := by_name.get(key))]
    for tag, kind in inline:
        if part := write_message(kind, obj):
            parts.append(sized(tag, part))
    return b"".join(parts)


@cache
def _writers(name: str) -> tuple[dict[str, Writer], list[tuple[bytes, str]]]:
    own = message(name).own
    by_name = {field.name: _field_writer(field) for field in own if not field.inline}
    return by_name, [(bytes_tag(field.number), field.type) for field in own if field.inline]


def _field_writer(field: Field) -> Writer:
    write, tag = _value_writer(field.type), _tag(field)

    def one(value: Any) -> bytes:
        return tag + write(value)

    def listed(value: Any) -> bytes:
        return b"".join([tag + write(each) for each in value])

    def mapped(value: Any) -> bytes:
        inner = _SECOND if tag_is_bytes else number_tag(2)
        entries = [
            sized(_FIRST, key.encode()) + inner + write(each) for key, each in cast(Obj, value).items()
        ]
        return b"".join([sized(bytes_tag(field.number), entry) for entry in entries])

    tag_is_bytes = tag == bytes_tag(field.number)
    return {"one": one, "list": listed, "map": mapped}[field.shape]


def _tag(field: Field) -> bytes:
    if field.type in ("int32", "int64", "bool"):
        return number_tag(field.number)
    return double_tag(field.number) if field.type == "double" else bytes_tag(field.number)


def _value_writer(kind: str) -> Writer:
    if (known := _WRITERS.get(kind)) is not None:
        return known

    def nested(value: Any) -> bytes:
        return _sized(write_message(kind, value))

    return nested


def _sized(data: bytes) -> bytes:
    return number_bytes(len(data)) + data


def _text(value: Any) -> bytes:
    return _sized(value.encode())


def _number(value: Any) -> bytes:
    return number_bytes(int(value))


def _double(value: Any) -> bytes:
    return struct.pack("<d", value)


def _base64(value: Any) -> bytes:
    return _sized(b64decode(value))


@lru_cache(maxsize=4096)
def _time(value: str) -> bytes:
    moment = datetime.fromisoformat(value)
    seconds, nanos = (moment - _EPOCH) // timedelta(seconds=1), moment.microsecond * 1000
    return _sized(
        number_tag(1) + number_bytes(seconds) + (number_tag(2) + number_bytes(nanos) if nanos else b"")
    )


def _quantity(value: Any) -> bytes:
    return _sized(sized(_FIRST, str(value).encode()))


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return _sized(number_tag(1) + number_bytes(1) + sized(_THIRD, value.encode()))
    return _sized(number_tag(2) + number_bytes(value))


def _json(value: Any) -> bytes:
    return _sized(sized(_FIRST, msgspec.json.encode(value)))


def _texts(value: Any) -> bytes:
    return _sized(b"".join([sized(_FIRST, each.encode()) for each in value]))


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return _sized(number_tag(1) + number_bytes(value))
    return _sized(number_tag(1) + number_bytes(1) + sized(_SECOND, write_message(_SCHEMA, value)))


def _schema_or_array(value: Any) -> bytes:
    if isinstance(value, list):
        return _sized(
            b"".join([sized(_SECOND, write_message(_SCHEMA, each)) for each in cast(list[Obj], value)])
        )
    return _sized(sized(_FIRST, write_message(_SCHEMA, value)))


def _schema_or_texts(value: Any) -> bytes:
    if isinstance(value, list):
        return _sized(b"".join([sized(_SECOND, each.encode()) for each in cast(list[str], value)]))
    return _sized(sized(_FIRST, write_message(_SCHEMA, value)))


_WRITERS: dict[str, Writer] = {
    "string": _text,
    "int32": _number,
    "int64": _number,
    "bool": _number,
    "bytes": _base64,
    "double": _double,
    "Time": _time,
    "MicroTime": _time,
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
