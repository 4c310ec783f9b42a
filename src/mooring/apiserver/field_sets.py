"""Sets of fields of an object, as server-side apply counts them, and their `FieldsV1` form. Pure.

A field is a path of steps: `f:name` of an object, `k:{"name":"x"}` of the entry of a named list, `v:"x"` of a value in
a list of values. Which lists are named is said by the facts of the API's own types; any other list is one field.
"""

import json
from collections.abc import Iterable, Set
from typing import Any, TypeAlias, cast

from mooring.apiserver.errors import Obj
from mooring.apiserver.schema.facts import Place

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = Set[Path]

MISSING = object()
"""What `value_of` finds where there is nothing."""

_IDENTITY = frozenset({("f:apiVersion",), ("f:kind",)})
_SYSTEM = frozenset({
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
})  # fmt: skip


def fields_of(obj: Obj, at: Place) -> set[Path]:
    """Every field that somebody can own of an object: not its identity, nor what the server sets."""
    found = set(_walk(obj, (), at))
    return {path for path in found - _IDENTITY if not (path[0] == "f:metadata" and path[1][2:] in _SYSTEM)}


def _walk(value: Any, path: Path, at: Place) -> Iterable[Path]:
    if isinstance(value, dict) and value:
        for key, each in cast(Obj, value).items():
            yield from _walk(each, (*path, f"f:{key}"), at.child(key))
        return
    if isinstance(value, list) and value:
        entries, key = cast(list[Any], value), at.merge_key
        if key and all(isinstance(entry, dict) and key in entry for entry in entries):
            for entry in cast(list[Obj], entries):
                item = (*path, _key_step(key, entry[key]))
                yield item
                yield from _walk(entry, item, at.entry())
            return
        if key == "":
            yield from ((*path, f"v:{_compact(entry)}") for entry in entries)
            return
    if path:
        yield path


def _key_step(key: str, value: Any) -> str:
    return f"k:{_compact({key: value})}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def value_of(obj: Any, path: Path) -> Any:
    """The value of a field, or `MISSING`."""
    for step in path:
        obj = _child(obj, step)
        if obj is MISSING:
            break
    return obj


def _child(obj: Any, step: str) -> Any:
    if step.startswith("f:"):
        return cast(Obj, obj).get(step[2:], MISSING) if isinstance(obj, dict) else MISSING
    if not isinstance(obj, list):
        return MISSING
    wanted: Any = json.loads(step[2:])
    for entry in cast(list[Any], obj):
        if (step.startswith("v:") and entry == wanted) or (step.startswith("k:") and _has(entry, wanted)):
            return entry
    return MISSING


def _has(entry: Any, keys: Obj) -> bool:
    return isinstance(entry, dict) and all(cast(Obj, entry).get(key) == value for key, value in keys.items())


def without(obj: Obj, path: Path) -> Obj:
    """`obj` without a field; an object that is left empty goes too."""
    return cast(Obj, _without(obj, path))


def _without(value: Any, path: Path) -> Any:
    step, rest = path[0], path[1:]
    child = _child(value, step)
    if child is MISSING:
        return value
    kept = _without(child, rest) if rest else MISSING
    if kept is MISSING or kept == {}:
        return _dropped(value, step, child)
    return _replaced(value, step, child, kept)


def _dropped(value: Any, step: str, child: Any) -> Any:
    if step.startswith("f:"):
        return {key: each for key, each in cast(Obj, value).items() if key != step[2:]}
    return [each for each in cast(list[Any], value) if each is not child]


def _replaced(value: Any, step: str, child: Any, kept: Any) -> Any:
    if step.startswith("f:"):
        return cast(Obj, value) | {step[2:]: kept}
    return [kept if each is child else each for each in cast(list[Any], value)]


def to_fields_v1(fields: FieldSet) -> Obj:
    """The set as nested objects; `.` marks an entry that is owned itself, beside its fields."""
    root: Obj = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = cast(Obj, node.setdefault(step, {}))
    for path in fields:
        node = root
        for step in path:
            node = cast(Obj, node[step])
        if node:
            node["."] = {}
    return root


def from_fields_v1(fields: Obj) -> set[Path]:
    """The set that nested objects stand for."""
    return set(_unnested(fields, ()))


def _unnested(node: Obj, path: Path) -> Iterable[Path]:
    if path and (not node or "." in node):
        yield path
    for step, below in node.items():
        if step != "." and isinstance(below, dict):
            yield from _unnested(cast(Obj, below), (*path, step))


def printed(path: Path) -> str:
    """A path as people read it: `.spec.containers[name="c"].image`."""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            keys: Obj = json.loads(step[2:])
            text += "[" + ",".join(f"{key}={_compact(value)}" for key, value in keys.items()) + "]"
        else:
            text += f"[={step[2:]}]"
    return text
