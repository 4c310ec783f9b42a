"""JSON that another program has written, as a type of ours.

A null stands for nothing, as Go reads it: an API server writes null for lists that its Go types do not leave
out (a pod's `projected: {}` comes back with `sources: null`), and aggregated API servers for others. What
still does not fit is `Unreadable`, a KubeError: a cache keeps what it had, and whatever needs the object
waits. It is never taken for absent, nor read in part.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from mooring.kube.errors import Unreadable

T = TypeVar("T")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """The (cached) strict JSON decoder of a type."""
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def decoded(kind: type[T], body: bytes, *, tried: str) -> T:
    """The JSON in `body`; `tried` ("GET /api/v1/nodes/n") is named in the error. Raises Unreadable."""
    try:
        return decoder(kind).decode(body)
    except msgspec.ValidationError:
        return _with_nulls(kind, body, tried)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"{tried}: the answer is no JSON: {error}") from None


def _with_nulls(kind: type[T], body: bytes, tried: str) -> T:
    """The same of what has nulls, perhaps: seldom, so that the rest need not be looked through for them."""
    try:
        return msgspec.convert(without_nulls(msgspec.json.decode(body)), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unreadable(f"{tried}: the answer cannot be read: {error}") from None


def without_nulls(value: Any) -> Any:
    """JSON, decoded, without the fields of objects that are null."""
    if isinstance(value, dict):
        entries = cast(dict[str, Any], value)
        return {key: without_nulls(each) for key, each in entries.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in cast(list[Any], value)]
    return value
