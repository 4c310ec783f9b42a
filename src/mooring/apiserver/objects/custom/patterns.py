"""Patterns of users, matched in linear time by RE2, whose syntax is Go's, and so upstream's. Pure."""

from functools import lru_cache
from typing import Any, cast

import re2

from mooring.apiserver.work_limit import spend

_MOST_MEMORY = 8 * 1024 * 1024
"""What a pattern may take when it is compiled, in bytes; RE2 slows down rather than take more for
matching."""

_re2: Any = re2
_OPTIONS = _re2.Options()
_OPTIONS.max_mem = _MOST_MEMORY
_OPTIONS.log_errors = False


class BadPattern(ValueError):
    """What is wrong with a pattern."""


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    spend(len(pattern))
    try:
        return _re2.compile(pattern, _OPTIONS)
    except UnicodeError as error:
        raise BadPattern("invalid UTF-8") from error
    except _re2.error as error:
        raise BadPattern(cast(bytes, error.args[0]).decode(errors="replace")) from error


def check(pattern: str) -> None:
    """Raises `BadPattern` for a text that is no pattern."""
    _compiled(pattern)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text. One that is none, which an older server let in, is found
    everywhere."""
    spend(len(text) >> 2)
    try:
        return _compiled(pattern).search(text) is not None
    except BadPattern:
        return True
