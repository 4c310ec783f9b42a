"""The filters of describes.

Pure. A filter's values are alternatives, and a record must pass all filters. In a value `*` stands for any
characters, `?` for one, and a backslash escapes the next character (EC2 User Guide, "List and filter your
resources"). Values are case-sensitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import tags_of
from mooring.cloud.requests.parameters import Filter
from mooring.linear_patterns import compiled, require

R = TypeVar("R")
Fields = Mapping[str, Callable[[R], Iterable[str]]]
"""For each filter's name, the values of a record that it compares."""


class Matcher(Generic[R]):
    """The filters of one request. Raises Ec2Error if there is no filter of that name."""

    def __init__(self, filters: Sequence[Filter], fields: Fields[R]) -> None:
        self._tests: list[tuple[Callable[[R], Iterable[str]], Callable[[str], bool]]] = []
        for each in filters:
            self._tests.append((_read(each.name, fields), accepts(each.values)))

    def __call__(self, record: R) -> bool:
        return all(any(map(accept, read(record))) for read, accept in self._tests)


def accepts(values: Sequence[str]) -> Callable[[str], bool]:
    """Whether a string is one of the values, with their wildcards."""
    plain = {value for value in values if not is_pattern(value)}
    patterns = [value for value in values if is_pattern(value)]
    if not patterns:
        return plain.__contains__
    matches = _matches(tuple(patterns))
    return lambda given: given in plain or matches(given)


def is_pattern(value: str) -> bool:
    """Whether the value has wildcards."""
    return any(sign in value for sign in "*?\\")


def indexed(filters: Sequence[Filter]) -> Filter | None:
    """The filter that an index by tag answers: one tag key, values without wildcards."""
    for each in filters:
        if each.name.startswith("tag:") and not any(map(is_pattern, each.values)):
            return each
    return None


def yes_or_no(value: bool) -> tuple[str]:
    """A boolean as filters compare it."""
    return ("true" if value else "false",)


def _read(name: str, fields: Fields[R]) -> Callable[[R], Iterable[str]]:
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda record: _tag(record, key)
    if name == "tag-key":
        return lambda record: tags_of(record).keys()
    if name == "tag-value":
        return lambda record: tags_of(record).values()
    if name not in fields:
        raise Ec2Error("InvalidParameterValue", f"The filter '{name}' is invalid")
    return fields[name]


def _tag(record: Any, key: str) -> tuple[str, ...]:
    value = tags_of(record).get(key)
    return () if value is None else (value,)


@lru_cache(maxsize=64)
def _matches(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a string matches one of the patterns, in time linear in its length (RE2)."""
    try:
        pattern = compiled("|".join(map(_expression, patterns)), dot_matches_newlines=True)
    except (require().error, UnicodeError) as error:
        problem = f"The filter value '{patterns[0][:100]}' is too long, or no text"
        raise Ec2Error("InvalidParameterValue", problem) from error
    return lambda given: pattern.fullmatch(given) is not None


def _expression(pattern: str) -> str:
    """A value with wildcards as a regular expression. Stars in a row are one."""
    parts: list[str] = []
    signs = iter(pattern)
    for sign in signs:
        if sign == "?":
            parts.append(".")
        elif sign != "*":
            parts.append(_literal(next(signs, sign) if sign == "\\" else sign))
        elif parts[-1:] != [".*"]:
            parts.append(".*")
    return "".join(parts)


def _literal(text: str) -> str:
    return cast(str, require().escape(text))
