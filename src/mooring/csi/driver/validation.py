"""Whether the specification allows a request. Pure.

Guarantee: a request that passes has its required fields, strings and maps of allowed size without NUL bytes,
known enum values, and no negative sizes, at any depth. `paths` checks paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mooring.csi.driver.rules import LONGER_STRINGS, MAP_BYTES, NOT_NEGATIVE, REQUIRED, STRING_BYTES
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.secrets import is_secret


def validate(request: Message, access_modes: Collection[int]) -> None:
    """Raises CsiError, INVALID_ARGUMENT, with every problem of the request."""
    problems = [*_problems(request, ""), *_refused_modes(request, access_modes)]
    if problems:
        raise CsiError(Code.INVALID_ARGUMENT, "; ".join(problems))


def _problems(message: Message, where: str) -> Iterator[str]:
    for name in REQUIRED.get(message.DESCRIPTOR.name, ()):
        if not _is_set(message, name):
            yield f"{where}{name} is missing"
    for field, value in message.ListFields():
        yield from _field_problems(field, value, f"{where}{field.name}")
    if isinstance(message, csi.CapacityRange) and 0 < message.limit_bytes < message.required_bytes:
        yield f"{where}limit_bytes {message.limit_bytes} is below required_bytes {message.required_bytes}"


def _is_set(message: Message, name: str) -> bool:
    if name in message.DESCRIPTOR.oneofs_by_name:
        return message.WhichOneof(name) is not None
    return any(field.name == name for field, _ in message.ListFields())


def _field_problems(field: FieldDescriptor, value: Any, where: str) -> Iterator[str]:
    if is_secret(field):
        return
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        yield from _map_problems(cast(Mapping[str, str], value), where)
    elif field.is_repeated:
        yield from _list_problems(field, cast(Sequence[Any], value), where)
    else:
        yield from _value_problems(field, value, where)


def _map_problems(value: Mapping[str, str], where: str) -> Iterator[str]:
    parts = [part for pair in value.items() for part in pair]
    size = sum(len(part.encode()) for part in parts)
    if size > MAP_BYTES:
        yield f"{where} has {size} bytes, more than {MAP_BYTES}"
    if any("\0" in part for part in parts):
        yield f"{where} holds a NUL byte"


def _list_problems(field: FieldDescriptor, values: Sequence[Any], where: str) -> Iterator[str]:
    if field.name == "mount_flags":
        size = sum(len(flag.encode()) for flag in cast(Sequence[str], values))
        if size > MAP_BYTES:
            yield f"{where} has {size} bytes, more than {MAP_BYTES}"
        return
    for index, value in enumerate(values):
        yield from _value_problems(field, value, f"{where}[{index}]")


def _value_problems(field: FieldDescriptor, value: Any, where: str) -> Iterator[str]:
    if isinstance(value, Message):
        yield from _problems(value, f"{where}.")
    elif isinstance(value, str):
        yield from _string_problems(value, LONGER_STRINGS.get(field.name, STRING_BYTES), where)
    elif field.enum_type is not None and value not in field.enum_type.values_by_number:
        yield f"{where} {value} is not known"
    elif field.name in NOT_NEGATIVE and value < 0:
        yield f"{where} {value} is negative"


def _string_problems(value: str, limit: int, where: str) -> Iterator[str]:
    size = len(value.encode())
    if size > limit:
        yield f"{where} has {size} bytes, more than {limit}"
    if "\0" in value:
        yield f"{where} holds a NUL byte"


_ASKS_ONLY = (csi.ValidateVolumeCapabilitiesRequest, csi.GetCapacityRequest)
"""Requests about capabilities, whose answer, not an error, says that the driver does not support a mode."""


def _refused_modes(request: Message, access_modes: Collection[int]) -> Iterator[str]:
    if isinstance(request, _ASKS_ONLY):
        return
    for capability in _capabilities(request):
        mode = capability.access_mode.mode
        if mode in csi.VolumeCapability.AccessMode.Mode.values() and mode and mode not in access_modes:
            yield f"access mode {csi.VolumeCapability.AccessMode.Mode.Name(mode)} is not one that this driver has"


def _capabilities(request: Message) -> Iterator[csi.VolumeCapability]:
    for field, value in request.ListFields():
        if field.name == "volume_capability":
            yield value
        elif field.name == "volume_capabilities":
            yield from value
