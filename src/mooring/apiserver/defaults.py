"""Default values as data: a table of paths and values, and the one function that fills them in.

A path is dotted; `[]` after a name means every entry of that list; `?` after a name means only if it is there. A
missing parent without `?` is created. A value that is a function is called with the parent object.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple, cast

from mooring.apiserver.errors import Obj

Rules = Mapping[str, Any]


class _Step(NamedTuple):
    """One part of a path: a name, and what its mark says of the children below it."""

    name: str
    mark: str


def fill(obj: Obj, rules: Rules) -> None:
    """Set every field of `rules` that `obj` lacks. An explicit null counts as lacking."""
    for path, value in rules.items():
        _fill(obj, _steps(path), 0, value)


def under(prefix: str, rules: Rules) -> Rules:
    """The same rules for an object that sits at `prefix`."""
    return {f"{prefix}.{path}": value for path, value in rules.items()}


@cache
def _steps(path: str) -> tuple[_Step, ...]:
    marks = [(step, "[]" if step.endswith("[]") else "?" if step.endswith("?") else "") for step in path.split(".")]
    return tuple(_Step(step.removesuffix(mark), mark) for step, mark in marks)


def _fill(parent: Obj, steps: tuple[_Step, ...], at: int, value: Any) -> None:
    name, mark = steps[at]
    found = parent.get(name)
    if at == len(steps) - 1:
        if found is None:
            _set(parent, name, value)
        return
    if found is None and not mark:
        found = parent[name] = {}
    for child in _children(found, mark):
        _fill(child, steps, at + 1, value)


def _set(parent: Obj, name: str, value: Any) -> None:
    made = cast(Callable[[Obj], Any], value)(parent) if callable(value) else deepcopy(value)
    if made is not None:
        parent[name] = made


def _children(found: Any, mark: str) -> Sequence[Obj]:
    if mark == "[]":
        entries = cast(list[Any], found) if isinstance(found, list) else []
        return [cast(Obj, each) for each in entries if isinstance(each, dict)]
    return (cast(Obj, found),) if isinstance(found, dict) else ()
