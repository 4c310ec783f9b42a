"""Reading decoded JSON by dotted path, with its form checked: a client may send anything anywhere. Pure."""

from __future__ import annotations

from typing import Any, cast

from mooring.apiserver.errors import Obj


class WrongForm(ValueError):
    """A value is not of the JSON type that its place asks for; the message names path and type."""


def value_at(obj: Any, path: str) -> Any:
    """The value at a dotted path of plain names, or None if any part of it is missing or null."""
    for step in path.split(".") if "." in path else (path,):
        if obj is None:
            return None
        if not isinstance(obj, dict):
            raise WrongForm(f"{step} of {path} is looked for in something that is not an object")
        obj = obj.get(step)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return obj  # pyright: ignore[reportUnknownVariableType]


def object_at(obj: Obj, path: str) -> Obj:
    """The object at a path; an empty one (not stored) if it is missing or null. Raises `WrongForm`."""
    value = value_at(obj, path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WrongForm(f"{path} must be an object")
    return cast(Obj, value)


def list_at(obj: Obj, path: str) -> list[Any]:
    """The list at a path; an empty one if it is missing or null. Raises `WrongForm`."""
    value = value_at(obj, path)
    if value is None:
        return []
    if not isinstance(value, list):
        raise WrongForm(f"{path} must be a list")
    return cast(list[Any], value)


def objects_at(obj: Obj, path: str) -> list[Obj]:
    """The list of objects at a path; an empty one if it is missing or null. Raises `WrongForm`."""
    value = list_at(obj, path)
    if not all(isinstance(entry, dict) for entry in value):
        raise WrongForm(f"{path} must be a list of objects")
    return cast(list[Obj], value)


def strings_at(obj: Obj, path: str) -> dict[str, str]:
    """The map of strings at a path (labels and the like); an empty one if missing. Raises `WrongForm`."""
    pairs = object_at(obj, path)
    if not all(isinstance(value, str) for value in pairs.values()):
        raise WrongForm(f"{path} must be an object whose values are strings")
    return cast(dict[str, str], pairs)


def text_at(obj: Obj, path: str) -> str:
    """The string at a path; empty if it is missing or null. Raises `WrongForm`."""
    value = value_at(obj, path)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongForm(f"{path} must be a string")
    return value
