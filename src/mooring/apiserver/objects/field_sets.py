"""Sets of fields of an object, as server-side apply counts them, and their `FieldsV1` form. Pure.

A field is a path of steps: `f:name` of an object, `k:{"name":"x"}` of the entry of a named list, `v:"x"` of a
value in a list of values. Which lists are named is said by the facts of the API's own types; any other list
is one field.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Set
from typing import Any, TypeAlias, cast

from mooring.apiserver.errors import Obj
from mooring.apiserver.schema.facts import Place
from mooring.apiserver.values.hashable import identity
from mooring.apiserver.work_limit import spend

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = Set[Path]

MISSING = object()
"""The value of a missing field."""

_IDENTITY = frozenset({("f:apiVersion",), ("f:kind",)})
_SYSTEM = frozenset({
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
})  # fmt: skip


def fields_of(obj: Obj, at: Place) -> set[Path]:
    """Every field that a manager can own of an object: not its identity, nor what the server sets."""
    paths = set(_walk(obj, (), at))
    return {path for path in paths - _IDENTITY if not (path[0] == "f:metadata" and path[1][2:] in _SYSTEM)}


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


def values_of(obj: Any, paths: Iterable[Path]) -> dict[Path, Any]:
    """The values of those fields that exist."""
    values: dict[Path, Any] = {}
    _find(obj, _tree(paths), values)
    return values


class _Tree:
    """Paths with their common beginnings joined. `path` is the one that ends here."""

    __slots__ = ("below", "path")

    def __init__(self) -> None:
        self.below: dict[str, _Tree] = {}
        self.path: Path | None = None


def _tree(paths: Iterable[Path]) -> _Tree:
    root = _Tree()
    for path in paths:
        spend(1)
        node = root
        for step in path:
            below = node.below.get(step)
            if below is None:
                below = node.below[step] = _Tree()
            node = below
        node.path = path
    return root


def _find(value: Any, tree: _Tree, values: dict[Path, Any]) -> None:
    if tree.path is not None:
        values[tree.path] = value
    for step, child in _children(value, tree.below).items():
        _find(child, tree.below[step], values)


def _children(value: Any, steps: Iterable[str]) -> dict[str, Any]:
    """The children of a value to which the steps lead, by step; missing ones are left out."""
    if isinstance(value, dict):
        fields = cast(Obj, value)
        return {step: fields[step[2:]] for step in steps if step.startswith("f:") and step[2:] in fields}
    if not isinstance(value, list):
        return {}
    children: dict[str, Any] = {}
    places: dict[tuple[str, ...], dict[Hashable, Any]] = {}
    for step in steps:
        if step.startswith("f:"):
            continue
        wanted: Any = json.loads(step[2:])
        keys = tuple(cast(Obj, wanted)) if step.startswith("k:") else ()
        if keys not in places:
            places[keys] = _places(cast(list[Any], value), keys)
        mark = tuple(identity(wanted[key]) for key in keys) if keys else identity(wanted)
        if mark in places[keys]:
            children[step] = places[keys][mark]
    return children


def _places(entries: list[Any], keys: tuple[str, ...]) -> dict[Hashable, Any]:
    """The entries of a list by what they have at `keys`, or, without keys, by what they are; the first of its
    like."""
    spend(len(entries) >> 1)
    places: dict[Hashable, Any] = {}
    for entry in entries:
        if not keys:
            places.setdefault(identity(entry), entry)
        elif isinstance(entry, dict):
            places.setdefault(tuple(identity(cast(Obj, entry).get(key)) for key in keys), entry)
    return places


def without(obj: Obj, paths: Iterable[Path]) -> Obj:
    """`obj` without some fields; an object that is left empty goes too."""
    return cast(Obj, _without(obj, _tree(paths)))


def _without(value: Any, tree: _Tree) -> Any:
    kept: dict[int, Any] = {}
    """By the identity (`id`) of a child, what becomes of it."""
    names: dict[str, Any] = {}
    for step, child in _children(value, tree.below).items():
        below = tree.below[step]
        left = MISSING if below.path is not None else _without(child, below)
        made = MISSING if left == {} else left
        if step.startswith("f:"):
            names[step[2:]] = made
        else:
            kept[id(child)] = made
    if names:
        changed = {key: names.get(key, each) for key, each in cast(Obj, value).items()}
        return {key: each for key, each in changed.items() if each is not MISSING}
    if kept:
        entries = [kept.get(id(each), each) for each in cast(list[Any], value)]
        return [each for each in entries if each is not MISSING]
    return value


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
