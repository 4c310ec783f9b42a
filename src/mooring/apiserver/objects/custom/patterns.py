"""Users' regular expressions, matched in linear time by RE2, whose syntax is that of Go and so of upstream.
Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from mooring.apiserver.work_limit import spend
from mooring.linear_patterns import compiled, require


class BadPattern(ValueError):
    """What is wrong with a pattern."""


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    spend(len(pattern))
    try:
        return compiled(pattern)
    except UnicodeError as error:
        raise BadPattern("invalid UTF-8") from error
    except require().error as error:
        raise BadPattern(cast(bytes, error.args[0]).decode(errors="replace")) from error


def check(pattern: str) -> None:
    """Raises `BadPattern` for a malformed pattern."""
    _compiled(pattern)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches a part of the text. A malformed pattern, which an older server accepted,
    matches every text."""
    spend(len(text) >> 2)
    try:
        return _compiled(pattern).search(text) is not None
    except BadPattern:
        return True
