"""Default values as data: a table of paths and values, and the one function that fills them in.

A path is dotted; `[]` after a name means every entry of that list; `?` after a name means only if it is there. A
missing parent without `?` is created. A value that is a function is called with the parent object.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, cast

from mooring.apiserver.errors import Obj

Rules = Mapping[str, Any]


def fill(obj: Obj, rules: Rules) -> None:
    """Set every field of `rules` that `obj` lacks. An explicit null counts as lacking."""
    for path, value in rules.items():
        _fill(obj, path.split("."), value)


def under(prefix: str, rules: Rules) -> Rules:
    """The same rules for an object that sits at `prefix`."""
    return {f"{prefix}.{path}": value for path, value in rules.items()}


def _fill(parent: Obj, steps: list[str], value: Any) -> None:
    step, rest = steps[0], steps[1:]
    if not rest:
        if parent.get(step) is None:
            made = cast(Callable[[Obj], Any], value)(parent) if callable(value) else deepcopy(value)
            if made is not None:
                parent[step] = made
        return
    for child in _children(parent, step):
        _fill(child, rest, value)


def _children(parent: Obj, step: str) -> list[Obj]:
    if step.endswith("[]"):
        found: Any = parent.get(step[:-2])
        return [entry for entry in cast(list[Any], found) if isinstance(entry, dict)] if isinstance(found, list) else []
    if step.endswith("?"):
        found = parent.get(step[:-1])
    else:
        if parent.get(step) is None:
            parent[step] = {}
        found = parent[step]
    return [cast(Obj, found)] if isinstance(found, dict) else []
