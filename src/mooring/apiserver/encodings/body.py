"""Reading what a client sends: JSON or YAML within limits, or else a clear 400, 413 or 415."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

import msgspec

from mooring.apiserver.encodings import protobuf, yaml_body
from mooring.apiserver.errors import BadRequest, Obj, TooLarge, UnsupportedMediaType
from mooring.apiserver.work_limit import spend

MAX_BODY_BYTES = 3 * 1024 * 1024
_MAX_DEPTH = 200
_BYTES_A_STEP = 2
"""What is done with a byte of a body until it is stored takes about half a microsecond, where there is most
to do."""
OBJECT_TYPES = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)


def media_type(content_type: str) -> str:
    """The bare media type of a Content-Type header; JSON if there is none."""
    return content_type.partition(";")[0].strip().lower() or "application/json"


def read(body: bytes, content_type: str) -> Any:
    """Any JSON or YAML value. Raises BadRequest, TooLarge or UnsupportedMediaType."""
    _limited(body)
    kind = media_type(content_type)
    if kind.endswith("json"):
        shallow = body.count(b"{") + body.count(b"[") <= _MAX_DEPTH
        return _json(body) if shallow else _checked(_json(body))
    if kind.endswith("yaml"):
        return _yaml(body)
    accepted = ", ".join(OBJECT_TYPES)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    )


def read_object(body: bytes, content_type: str) -> Obj:
    """One object. Raises as `read` does."""
    if media_type(content_type) == protobuf.MEDIA_TYPE:
        return _checked(protobuf.decode(_limited(body))) if len(body) > _MAX_DEPTH else protobuf.decode(body)
    value = read(body, content_type)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest("the body of the request is not an object")
    return cast(Obj, value)


def repeated_fields(body: bytes) -> list[str]:
    """The paths of fields that a JSON object has more than once."""
    seen_twice: list[bool] = []

    def pairs(found: list[tuple[str, Any]]) -> _Pairs:
        seen_twice.extend([True] * (len({name for name, _ in found}) < len(found)))
        return _Pairs(found)

    value = json.loads(body, object_pairs_hook=pairs)
    return [*dict.fromkeys(_repeated(value, ""))] if seen_twice else []


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object as they were sent."""


def _repeated(value: Any, path: str) -> Iterable[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, each in value:
            place = f"{path}.{name}" if path else name
            if name in seen:
                yield place
            seen.add(name)
            yield from _repeated(each, place)
    elif isinstance(value, list):
        for index, each in enumerate(cast(list[Any], value)):
            yield from _repeated(each, f"{path}[{index}]")


def _limited(body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
    spend(len(body) // _BYTES_A_STEP)
    return body


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body of the request is not JSON: {error}") from error


def _yaml(body: bytes) -> Any:
    if body.startswith(b"{"):  # JSON, which is YAML, and is what clients send as an apply
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _checked(msgspec.json.decode(body))
    try:
        return yaml_body.load(body, _MAX_DEPTH)
    except yaml_body.BadYaml as error:
        raise BadRequest(f"the body of the request is not YAML that JSON can express: {error}") from error


def _checked(value: Any) -> Any:
    _check_depth(value, 0)
    return value


def _check_depth(value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise BadRequest(f"the body of the request is nested deeper than {_MAX_DEPTH} levels")
    children: Iterable[Any] = ()
    if isinstance(value, dict):
        children = cast(Obj, value).values()
    elif isinstance(value, list):
        children = cast(list[Any], value)
    for child in children:
        _check_depth(child, depth + 1)
