"""Default values as data: a table of paths and values, and the one function that fills them in.

A path is dotted; `[]` after a name means every entry of that list; `?` after a name means only if it is
there. A missing parent without `?` is created. A value that is a function is called with the parent object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple, TypeAlias, cast

from mooring.apiserver.errors import Obj

Rules = Mapping[str, Any]


class _Step(NamedTuple):
    """One part of a path: a name, and what its mark says of the children below it; `=` marks the last one."""

    name: str
    mark: str


_Plan: TypeAlias = dict[_Step, "str | _Plan"]
"""Rules with their common parents joined; a leaf is the path of its rule."""


def fill(obj: Obj, rules: Rules) -> None:
    """Sets every field of `rules` that `obj` lacks. An explicit null counts as lacking."""
    _fill(obj, _plan(tuple(rules)), rules)


def under(prefix: str, rules: Rules) -> Rules:
    """The same rules for an object that sits at `prefix`."""
    return {f"{prefix}.{path}": value for path, value in rules.items()}


@cache
def _plan(paths: tuple[str, ...]) -> _Plan:
    plan: _Plan = {}
    for path in paths:
        *parents, last = path.split(".")
        node = plan
        for part in parents:
            node = cast(_Plan, node.setdefault(_step(part), {}))
        node[_Step(last, "=")] = path
    return plan


def _step(part: str) -> _Step:
    mark = "[]" if part.endswith("[]") else "?" if part.endswith("?") else ""
    return _Step(part.removesuffix(mark), mark)


def _fill(parent: Obj, plan: _Plan, rules: Rules) -> None:
    for (name, mark), below in plan.items():
        found = parent.get(name)
        if isinstance(below, str):
            if found is None:
                _set(parent, name, rules[below])
            continue
        if found is None:
            if mark:
                continue
            found = parent[name] = {}
        for child in _children(found, mark):
            _fill(child, below, rules)


def _set(parent: Obj, name: str, value: Any) -> None:
    made = cast(Callable[[Obj], Any], value)(parent) if callable(value) else deepcopy(value)
    if made is not None:
        parent[name] = made


def _children(found: Any, mark: str) -> Sequence[Obj]:
    if mark == "[]":
        entries = cast(list[Any], found) if isinstance(found, list) else []
        return [cast(Obj, each) for each in entries if isinstance(each, dict)]
    return (cast(Obj, found),) if isinstance(found, dict) else ()
