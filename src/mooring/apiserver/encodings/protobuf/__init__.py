"""The Kubernetes protobuf encoding of objects, lists and watch events. Pure.

An envelope is four magic bytes and a `runtime.Unknown`: apiVersion and kind, and the message of that kind.
Messages are read and written by the facts of `mooring.apiserver.schema`; a kind that has none there (one of a
CustomResourceDefinition) has no protobuf form, as upstream.

Google's protobuf library could do this, with modules generated from Kubernetes' .proto files and a conversion
from their messages to JSON, in which objects are stored. Hand-written instead, so that the facts of the
fields, which validation needs anyway, are the only description of the API's types, and bytes become JSON in
one step. A pod of 3.9 KB as JSON is read in 0.37 ms and written in 0.16 ms; with protobuf 7.36 (upb) and its
`json_format` it was read in 0.34 ms and written in 0.87 ms, and quantities, times and raw values were still
to be converted. Only the wire format is ours; it is small (`wire`) and has its fuzzer
(`tests/fuzz/targets/protobuf.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from mooring.apiserver.encodings.protobuf.decoding import read_message
from mooring.apiserver.encodings.protobuf.encoding import write_message
from mooring.apiserver.encodings.protobuf.wire import Malformed, bytes_tag, fields, raw, sized, text
from mooring.apiserver.errors import BadRequest, Obj, UnsupportedMediaType
from mooring.apiserver.schema.facts import message_of
from mooring.apiserver.work_limit import spend

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
WATCH_TYPE = f"{MEDIA_TYPE};stream=watch"
_MAGIC = b"k8s\x00"
_KEPT = 1024
"""How many encoded messages are cached, because every watcher of an object needs the same one."""


def speaks(group: str, version: str, kind: str) -> bool:
    """Whether objects of a kind have a protobuf form."""
    return message_of(group, version, kind) is not None


def decode(body: bytes) -> Obj:
    """The object in an envelope. Raises BadRequest for bytes that are none, UnsupportedMediaType for a kind
    unknown here."""
    if not body.startswith(_MAGIC):
        raise BadRequest("the body of the request is not in the Kubernetes protobuf envelope")
    try:
        envelope = dict(fields(body[len(_MAGIC) :]))
        meta = dict(fields(raw(envelope.get(1, b""))))
        version, kind = text(meta.get(1, b"")), text(meta.get(2, b""))
        return {
            "kind": kind,
            "apiVersion": version,
            **read_message(_message(version, kind), envelope.get(2, b"")),
        }
    except Malformed as error:
        raise BadRequest(f"the body of the request is not valid protobuf: {error}") from error
    except RecursionError:
        raise BadRequest("the body of the request is not valid protobuf: it is nested too deep") from None


def encode(body: bytes) -> bytes:
    """An object, given as JSON, in its envelope."""
    return _enveloped(*_head(body), _written(body))


def encode_list(version: str, kind: str, metadata: Obj, bodies: Sequence[bytes]) -> bytes:
    """A list of objects, given as JSON, in its envelope."""
    item = bytes_tag(2)
    head = sized(bytes_tag(1), write_message("meta.v1.ListMeta", metadata))
    return _enveloped(version, kind, b"".join([head, *(sized(item, _written(body)) for body in bodies)]))


def encode_event(event: str, body: bytes) -> bytes:
    """One frame of a watch: its length in four bytes, and the event with an object given as JSON."""
    held = sized(bytes_tag(1), encode(body))
    frame = sized(bytes_tag(1), event.encode()) + sized(bytes_tag(2), held)
    return len(frame).to_bytes(4, "big") + frame


class _Head(msgspec.Struct):
    apiVersion: str  # noqa: N815 - as in JSON
    kind: str


def _head(body: bytes) -> tuple[str, str]:
    head = msgspec.json.decode(body, type=_Head)
    return head.apiVersion, head.kind


@lru_cache(maxsize=_KEPT)
def _written(body: bytes) -> bytes:
    spend(len(body) >> 3)
    return write_message(_message(*_head(body)), msgspec.json.decode(body))


def _message(version: str, kind: str) -> str:
    group, _, number = version.rpartition("/")
    name = message_of(group, number, kind)
    if name is None:
        raise UnsupportedMediaType(
            f"this server reads {kind or 'this kind'} as application/json or application/yaml only, not as protobuf"
        )
    return name


def _enveloped(version: str, kind: str, message: bytes) -> bytes:
    meta = sized(bytes_tag(1), version.encode()) + sized(bytes_tag(2), kind.encode())
    return b"".join((_MAGIC, sized(bytes_tag(1), meta), sized(bytes_tag(2), message)))
