"""The wire format of protobuf: numbers, tags, fields. Knows no message. Source: protobuf's own
specification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MOST = 2**64 - 1
_SMALL = [bytes([number]) for number in range(128)]

Value: TypeAlias = int | bytes
"""What a field holds before its type is known."""


class Malformed(ValueError):
    """Bytes that are not a protobuf message of the expected form."""


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message, each with its number. Raises `Malformed`."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _number(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _number(data, at)
            yield number, value
            continue
        size = _SIZES.get(wire)
        if wire == _BYTES:
            size, at = _number(data, at)
        if size is None or at + size > end:
            raise Malformed(f"field {number} does not end")
        yield number, data[at : at + size]
        at += size


def _number(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    result = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        result |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return result & _MOST, at
    raise Malformed("a number does not end")


def raw(value: Value) -> bytes:
    """The bytes of a field. Raises `Malformed` for a number."""
    if not isinstance(value, bytes):
        raise Malformed("a number is where bytes should be")
    return value


def text(value: Value) -> str:
    """The text of a field. Raises `Malformed`."""
    try:
        return raw(value).decode()
    except UnicodeDecodeError as error:
        raise Malformed("a text is not UTF-8") from error


def integer(value: Value) -> int:
    """The signed number of a field. Raises `Malformed`."""
    if isinstance(value, bytes):
        raise Malformed("bytes are where a number should be")
    return value - 2**64 if value >= 2**63 else value


def number_bytes(number: int) -> bytes:
    """A number as it is written; a negative one takes ten bytes."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number_tag(number: int) -> bytes:
    """What stands before a number in field `number`."""
    return number_bytes(number << 3 | _VARINT)


def double_tag(number: int) -> bytes:
    """What stands before a double in field `number`."""
    return number_bytes(number << 3 | _FIXED64)


def bytes_tag(number: int) -> bytes:
    """What stands before the length of a text, of bytes or of a message in field `number`."""
    return number_bytes(number << 3 | _BYTES)


def sized(tag: bytes, data: bytes) -> bytes:
    """A text, bytes or a message as a field."""
    return b"".join((tag, number_bytes(len(data)), data))
