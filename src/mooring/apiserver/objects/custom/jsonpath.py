"""The simple JSONPath of printer columns and scale subresources: names, indices, `[*]` and `[?(@.a=="b")]`.
Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, cast

from mooring.apiserver.errors import Obj

Step = Callable[[Any], Iterable[Any]]

_STEP = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\'"])+)"""
    r"""|\[(?P<quote>['"])(?P<quoted>[^'"\]]*)(?P=quote)\]"""
    r"""|\[(?P<index>-?\d+)\]"""
    r"""|(?P<all>\[\*\]|\.\*)"""
    r"""|\[\?\(@(?P<field>[^=!]+)(?P<sign>==|!=)\s*(?P<mark>['"]?)(?P<value>[^'"()\[\]]*)(?P=mark)\)\]"""
)


_LONGEST = 4096


class BadPath(ValueError):
    """A text that is no JSONPath of this simple kind."""


def find(path: str, obj: Any) -> list[Any]:
    """Everything in `obj` that the path leads to. Raises `BadPath`."""
    values: list[Any] = [obj]
    for step in _steps(path):
        values = [each for value in values for each in step(value)]
    return values


@lru_cache(maxsize=1024)
def _steps(path: str) -> list[Step]:
    if len(path) > _LONGEST:
        raise BadPath(f"a JSONPath may have {_LONGEST} characters, this one has {len(path)}")
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise BadPath(f"{path!r} is not a JSONPath that is understood here, from {text[at:]!r} on")
        steps.append(_step(match))
        at = match.end()
    return steps


def _step(match: re.Match[str]) -> Step:
    if match["all"]:
        return _children
    if match["index"]:
        return _at_index(int(match["index"]))
    if match["field"]:
        return _filter(match["field"].rstrip(), match["value"], equal=match["sign"] == "==")
    return _named(match["quoted"] if match["quote"] else re.sub(r"\\(.)", r"\1", match["name"]))


def _named(name: str) -> Step:
    return lambda value: [cast(Obj, value)[name]] if isinstance(value, dict) and name in value else []


def _at_index(index: int) -> Step:
    return lambda value: cast(list[Any], value)[index:][:1] if isinstance(value, list) else []


def _children(value: Any) -> Iterable[Any]:
    return cast(Obj, value).values() if isinstance(value, dict) else cast(list[Any], value or [])


def _filter(field: str, wanted: str, *, equal: bool) -> Step:
    def step(value: Any) -> Iterable[Any]:
        entries = cast(list[Any], value) if isinstance(value, list) else []
        return [each for each in entries if ([_text(it) for it in find(field, each)] == [wanted]) == equal]

    return step


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
