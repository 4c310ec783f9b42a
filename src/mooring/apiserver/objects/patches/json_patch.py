"""JSON patch, RFC 6902, with Kubernetes' error codes: 400 for a malformed patch, 422 for one that does not
apply.

A patch is limited as upstream limits it: in its number of operations, and in the bytes that it copies.

The jsonpatch library could apply patches (the tests compare with it). Hand-written for what it does not
offer: upstream's error codes and words, and limits that are checked before an operation is made, so that no
patch holds up the serving thread (`work_limit`). Five operations on a pod of 3.7 KB take 38 µs, and took
265 µs with jsonpatch 1.47 (CPython 3.11).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from mooring.apiserver.errors import BadRequest, Obj, Rejected, TooLarge
from mooring.apiserver.work_limit import spend

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The most bytes, as JSON, that all `copy` operations of a patch may add together."""


def json_patch(target: Any, operations: Any) -> Any:
    """`target` with every operation applied in order, or none: raises BadRequest or Rejected."""
    if not isinstance(operations, list):
        raise BadRequest("a JSON patch must be a list of operations")
    steps = cast(list[Any], operations)
    if len(steps) > MAX_OPERATIONS:
        detail = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(steps)}"
        raise TooLarge(f"Request entity too large: {detail}")
    document, _ = _copied(target)
    copied = 0
    for step in steps:
        spend(3)
        if isinstance(step, dict) and cast(Obj, step).get("op") == "copy":
            document, size = _copy(document, cast(Obj, step), MAX_COPIED_BYTES - copied)
            copied += size
        else:
            document = _apply(document, step)
    return document


def _apply(document: Any, step: Any) -> Any:
    if not isinstance(step, dict):
        raise BadRequest("each operation of a JSON patch must be an object")
    operation = cast(Obj, step)
    name = operation.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise _rejected(f"there is no operation {name!r}")
    return _OPERATIONS[name](document, _pointer(operation.get("path")), operation)


def _copied(value: Any, most: int | None = None) -> tuple[Any, int]:
    """A copy of a value, and its size as JSON, of which there may be `most`. Raises Rejected."""
    written = msgspec.json.encode(value)
    if most is not None and len(written) > most:
        detail = f"the accumulated size increase of copy is {MAX_COPIED_BYTES - most + len(written)}"
        raise _rejected(f"Unable to complete the copy, {detail}, exceeding the limit {MAX_COPIED_BYTES}")
    spend(len(written) >> 3)
    return msgspec.json.decode(written), len(written)


def _pointer(text: Any) -> list[str]:
    """The steps of a JSON pointer; what is before its first slash does not count (as upstream reads it)."""
    if not isinstance(text, str) or (text and "/" not in text):
        raise _rejected(f"{text!r} is not a JSON pointer: it must be empty or start with a slash")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _value(operation: Obj) -> Any:
    if "value" not in operation:
        raise _rejected(f"the operation {operation.get('op')} needs a value")
    return operation["value"]


def _missing(path: list[str]) -> Rejected:
    return _rejected(f"/{'/'.join(path)} does not exist")


def _rejected(why: str) -> Rejected:
    return Rejected(f"the server rejected our request due to an error in our request: {why}")


def _child(parent: Any, step: str, path: list[str]) -> Any:
    if isinstance(parent, dict) and step in parent:
        return cast(Obj, parent)[step]
    if isinstance(parent, list):
        entries = cast(list[Any], parent)
        return entries[_index(step, len(entries) - 1, path)]
    raise _missing(path)


def _index(step: str, last: int, path: list[str]) -> int:
    if (
        not (step.isascii() and step.isdecimal())
        or (len(step) > 1 and step[0] == "0")
        or len(step) > 9
        or int(step) > last
    ):
        raise _missing(path)
    return int(step)


def _get(document: Any, path: list[str]) -> Any:
    for step in path:
        document = _child(document, step, path)
    return document


def _put(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        entries = cast(list[Any], parent)
        spend(len(entries) >> 10)
        entries.insert(len(entries) if path[-1] == "-" else _index(path[-1], len(entries), path), value)
    else:
        raise _missing(path)
    return document


def _take(document: Any, path: list[str]) -> tuple[Any, Any]:
    """What was at `path`, and the document without it."""
    if not path:
        return document, None
    parent, taken = _get(document, path[:-1]), _get(document, path)
    if isinstance(parent, list):
        entries = cast(list[Any], parent)
        spend(len(entries) >> 10)
        del entries[int(path[-1])]
    else:
        del parent[path[-1]]
    return taken, document


def _add(document: Any, path: list[str], operation: Obj) -> Any:
    return _put(document, path, _copied(_value(operation))[0])


def _remove(document: Any, path: list[str], operation: Obj) -> Any:
    return _take(document, path)[1]


def _replace(document: Any, path: list[str], operation: Obj) -> Any:
    value, _ = _copied(_value(operation))
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        _get(document, path)
        parent[int(path[-1])] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise _missing(path)
    return document


def _move(document: Any, path: list[str], operation: Obj) -> Any:
    source = _pointer(operation.get("from"))
    if path[: len(source)] == source and len(path) > len(source):
        raise BadRequest("a JSON patch cannot move a value into itself")
    taken, rest = _take(document, source)
    return _put(rest, path, taken)


def _copy(document: Any, operation: Obj, most: int) -> tuple[Any, int]:
    """The document with a copy in it, which may have so many bytes, and how many it has."""
    path = _pointer(operation.get("path"))
    value, size = _copied(_get(document, _pointer(operation.get("from"))), most)
    return _put(document, path, value), size


def _test(document: Any, path: list[str], operation: Obj) -> Any:
    if not _equal(_get(document, path), _value(operation)):
        raise _rejected(f"testing path /{'/'.join(path)} failed")
    return document


def _equal(one: Any, other: Any) -> bool:
    """Equality of JSON values: unlike Python's, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        a, b = cast(Obj, one), cast(Obj, other)
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(one, list) and isinstance(other, list):
        c, d = cast(list[Any], one), cast(list[Any], other)
        return len(c) == len(d) and all(map(_equal, c, d))
    return one == other


_OPERATIONS: Mapping[str, Callable[[Any, list[str], Obj], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "test": _test,
}
