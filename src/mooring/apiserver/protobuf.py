"""The Kubernetes protobuf envelope, for the few messages that kubectl sends in it and does not offer as JSON.

Decodes into the JSON form of the same object; never encodes. A message is a table of field numbers (facts of the
Kubernetes API, 1.36); a kind that is not in the tables is answered with 415, which says so. Wire format: protobuf's
own specification.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from mooring.apiserver.errors import BadRequest, Obj, UnsupportedMediaType
from mooring.apiserver.times import stamp

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Value: TypeAlias = int | bytes
Reader: TypeAlias = Callable[[Value], Any]
Message: TypeAlias = Mapping[int, tuple[str, Reader, bool]]
"""Field number → name, how to read one value, and whether it repeats. A map entry repeats with `_merge` names."""


class _Malformed(ValueError):
    """Bytes that are not a protobuf message of the expected form."""


def decode(body: bytes) -> Obj:
    """The object in an envelope. Raises BadRequest for bytes that are none, UnsupportedMediaType for a kind unknown
    here."""
    if not body.startswith(_MAGIC):
        raise BadRequest("the body of the request is not in the Kubernetes protobuf envelope")
    try:
        envelope = _message(_UNKNOWN)(body[len(_MAGIC) :])
        meta: Obj = envelope.get("typeMeta", {})
        kind = str(meta.get("kind", ""))
        if kind not in _KINDS:
            raise UnsupportedMediaType(
                f"this server reads {kind or 'this kind'} as application/json or application/yaml only, not as protobuf"
            )
        return {
            "kind": kind,
            "apiVersion": meta.get("apiVersion", ""),
            **_message(_KINDS[kind])(envelope.get("raw", b"")),
        }
    except _Malformed as error:
        raise BadRequest(f"the body of the request is not valid protobuf: {error}") from error


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        result |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return result, at
    raise _Malformed("a number does not end")


def _fields(data: bytes) -> list[tuple[int, Value]]:
    found: list[tuple[int, Value]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            found.append((number, value))
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise _Malformed(f"field {number} does not end")
        found.append((number, data[at : at + size]))
        at += size
    return found


def _raw(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise _Malformed("a number is where bytes should be")
    return value


def _text(value: Value) -> str:
    try:
        return _raw(value).decode()
    except UnicodeDecodeError as error:
        raise _Malformed("a text is not UTF-8") from error


def _base64(value: Value) -> str:
    return b64encode(_raw(value)).decode()


def _integer(value: Value) -> int:
    if isinstance(value, bytes):
        raise _Malformed("bytes are where a number should be")
    return value - 2**64 if value >= 2**63 else value


def _truth(value: Value) -> bool:
    return bool(_integer(value))


def _time(value: Value) -> str | None:
    parts = dict(_fields(_raw(value)))
    seconds = _integer(parts.get(1, 0))
    try:
        return stamp(datetime.fromtimestamp(seconds, UTC)) if seconds else None
    except (OverflowError, ValueError, OSError) as error:
        raise _Malformed("a time is out of range") from error


def _message(fields: Message) -> Callable[[Value], Obj]:
    def read(value: Value) -> Obj:
        obj: Obj = {}
        for number, raw in _fields(_raw(value)):
            if number not in fields:
                continue
            name, reader, repeated = fields[number]
            one = reader(raw)
            if isinstance(one, _Entry):
                obj.setdefault(name, {})[one.key] = one.value
            elif repeated:
                obj.setdefault(name, []).append(one)
            elif one not in (None, "", {}):
                obj[name] = one
        return obj

    return read


class _Entry:
    """One entry of a map."""

    def __init__(self, key: str, value: str) -> None:
        self.key, self.value = key, value


def _map(reader: Callable[[Value], str]) -> Reader:
    def read(value: Value) -> _Entry:
        parts = dict(_fields(_raw(value)))
        return _Entry(_text(parts.get(1, b"")), reader(parts.get(2, b"")))

    return read


_UNKNOWN: Message = {
    1: ("typeMeta", _message({1: ("apiVersion", _text, False), 2: ("kind", _text, False)}), False),
    2: ("raw", _raw, False),
}
_OWNER: Message = {
    1: ("kind", _text, False),
    3: ("name", _text, False),
    4: ("uid", _text, False),
    5: ("apiVersion", _text, False),
    6: ("controller", _truth, False),
    7: ("blockOwnerDeletion", _truth, False),
}
_META: Message = {
    1: ("name", _text, False),
    2: ("generateName", _text, False),
    3: ("namespace", _text, False),
    5: ("uid", _text, False),
    6: ("resourceVersion", _text, False),
    8: ("creationTimestamp", _time, False),
    11: ("labels", _map(_text), True),
    12: ("annotations", _map(_text), True),
    13: ("ownerReferences", _message(_OWNER), True),
    14: ("finalizers", _text, True),
}
_METADATA = ("metadata", _message(_META), False)
_REFERENCE: Message = {
    1: ("kind", _text, False),
    2: ("namespace", _text, False),
    3: ("name", _text, False),
    4: ("uid", _text, False),
    5: ("apiVersion", _text, False),
    6: ("resourceVersion", _text, False),
    7: ("fieldPath", _text, False),
}
_DELETE_OPTIONS: Message = {
    1: ("gracePeriodSeconds", _integer, False),
    2: ("preconditions", _message({1: ("uid", _text, False), 2: ("resourceVersion", _text, False)}), False),
    3: ("orphanDependents", _truth, False),
    4: ("propagationPolicy", _text, False),
    5: ("dryRun", _text, True),
}
_ATTRIBUTES: Message = {
    1: ("namespace", _text, False),
    2: ("verb", _text, False),
    3: ("group", _text, False),
    4: ("version", _text, False),
    5: ("resource", _text, False),
    6: ("subresource", _text, False),
    7: ("name", _text, False),
}
_REVIEW: Message = {
    1: ("resourceAttributes", _message(_ATTRIBUTES), False),
    2: ("nonResourceAttributes", _message({1: ("path", _text, False), 2: ("verb", _text, False)}), False),
}
_KINDS: Mapping[str, Message] = {
    "Namespace": {1: _METADATA, 2: ("spec", _message({1: ("finalizers", _text, True)}), False)},
    "ConfigMap": {
        1: _METADATA,
        2: ("data", _map(_text), True),
        3: ("binaryData", _map(_base64), True),
        4: ("immutable", _truth, False),
    },
    "Secret": {
        1: _METADATA,
        2: ("data", _map(_base64), True),
        3: ("type", _text, False),
        4: ("stringData", _map(_text), True),
        5: ("immutable", _truth, False),
    },
    "ServiceAccount": {
        1: _METADATA,
        2: ("secrets", _message(_REFERENCE), True),
        3: ("imagePullSecrets", _message({1: ("name", _text, False)}), True),
        4: ("automountServiceAccountToken", _truth, False),
    },
    "PriorityClass": {
        1: _METADATA,
        2: ("value", _integer, False),
        3: ("globalDefault", _truth, False),
        4: ("description", _text, False),
        5: ("preemptionPolicy", _text, False),
    },
    "Binding": {1: _METADATA, 2: ("target", _message(_REFERENCE), False)},
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": {1: _METADATA, 2: ("deleteOptions", _message(_DELETE_OPTIONS), False)},
    "SelfSubjectAccessReview": {1: _METADATA, 2: ("spec", _message(_REVIEW), False)},
}
