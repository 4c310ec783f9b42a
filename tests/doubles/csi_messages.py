"""CSI messages drawn from their descriptors: anything that can go over the wire, with a liking for evil."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

EVIL = (
    "; touch /tmp/pwned",
    "$(reboot)",
    "`id`",
    "a\nb",
    "-o loop",
    "--help",
    "../../../etc",
    "/etc/passwd",
    "/proc/self/root/etc",
    "..",
    ".",
    "/",
    "a\0b",
    "x" * 129,
    "é" * 64,
    "%s%n",
)


def messages(kind: type[Message], *known: str) -> st.SearchStrategy[Any]:
    """Messages of this kind. `known` are strings that mean something to the receiver."""
    return _message(kind.DESCRIPTOR, known)


@cache
def _message(descriptor: Descriptor, known: tuple[str, ...]) -> st.SearchStrategy[Any]:
    kind = GetMessageClass(descriptor)
    fields = {
        field.name: st.deferred(lambda field=field: _field(field, known)) for field in descriptor.fields
    }
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: kind(**values))


def _field(field: FieldDescriptor, known: tuple[str, ...]) -> st.SearchStrategy[Any]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        text = _text(known)
        return st.dictionaries(text, text, max_size=2)
    if field.is_repeated:
        return st.lists(_one(field, known), max_size=2)
    return _one(field, known)


def _one(field: FieldDescriptor, known: tuple[str, ...]) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return _message(field.message_type, known)
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values]) | st.integers(
            -(2**31), 2**31 - 1
        )
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text(known)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    bits = 31 if field.type == FieldDescriptor.TYPE_INT32 else 63
    return st.sampled_from((-1, 0, 1, 2**20, 2**bits - 1)) | st.integers(-(2**bits), 2**bits - 1)


def _text(known: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from((*known, *EVIL)) | st.text(max_size=200)


def nearly(valid: Message, *known: str) -> st.SearchStrategy[Any]:
    """The message with one field, at whatever depth, replaced or left out; or as it is."""
    return st.just(valid) | st.sampled_from(list(valid.DESCRIPTOR.fields)).flatmap(
        lambda field: _replaced(valid, field, known)
    )


def _replaced(valid: Message, field: FieldDescriptor, known: tuple[str, ...]) -> st.SearchStrategy[Any]:
    inside = field.message_type is not None and not field.is_repeated and valid.HasField(field.name)
    values = _field(field, known)
    if inside:
        values |= nearly(getattr(valid, field.name), *known)
    return (st.none() | values).map(lambda value: _with(valid, field.name, value))


def _with(valid: Message, name: str, value: Any) -> Message:
    made = type(valid)()
    made.CopyFrom(valid)
    made.ClearField(name)
    if value is not None:
        made.MergeFrom(type(valid)(**{name: value}))
    return made
