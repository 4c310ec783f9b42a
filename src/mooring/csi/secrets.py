"""Messages as plain values for logs, traces and errors, without the fields that the protos mark as secret.
Tokens of service accounts are left out, too: Kubernetes gives them where the protos mark nothing
(CVE-2024-3744).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mooring.csi.proto import csi_pb2

STRIPPED = "***stripped***"
"""Takes the place of a secret; upstream's sidecars write the same."""

ACCOUNT_TOKENS = "csi.storage.k8s.io/serviceAccount.tokens"
"""The key in a volume's context, or among its secrets, under which a driver is given the tokens that its
CSIDriver asks for."""


def stripped(message: Message) -> dict[str, object]:
    """The fields that are set, by their names in the protos; enums by their names; `STRIPPED` for secrets."""
    return {field.name: _shown(field, value) for field, value in message.ListFields()}


def _shown(field: FieldDescriptor, value: Any) -> object:
    if is_secret(field):
        return STRIPPED
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {
            key: STRIPPED if key == ACCOUNT_TOKENS else _one(inner, item)
            for key, item in cast(Mapping[str, Any], value).items()
        }
    if field.is_repeated:
        return [_one(field, item) for item in cast(Sequence[Any], value)]
    return _one(field, value)


def _one(field: FieldDescriptor, value: Any) -> object:
    if isinstance(value, Message):
        return stripped(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    return value


def is_secret(field: FieldDescriptor) -> bool:
    """Whether the protos mark the field with csi_secret."""
    extensions: Any = field.GetOptions().Extensions
    return bool(extensions[csi_pb2.csi_secret])
