"""RE2, which matches users' patterns in linear time: loaded when a pattern is first needed, or by `require`.

Its library is in C++, and needs `libstdc++.so.6`, which a small system may not have. What matches no pattern
runs without it. A leaf.
"""

from __future__ import annotations

from functools import cache
from typing import Any

CXX_LIBRARY, CXX_PACKAGE = "libstdc++", "libstdc++6"
"""What compiled modules need that are in C++, and Debian's package of it."""
MOST_MEMORY = 8 * 1024 * 1024
"""The memory limit of a compiled pattern in bytes; while matching, RE2 slows down rather than exceed it."""


class LibraryMissing(Exception):
    """RE2 cannot be loaded; says which package is missing."""


@cache
def require() -> Any:
    """Returns the module `re2`. Raises LibraryMissing."""
    try:
        import re2
    except ImportError as error:
        raise LibraryMissing(
            f"google-re2, which matches users' patterns, cannot be loaded ({error}): install the C++ library "
            f"(Debian: apt-get install {CXX_PACKAGE}), and if it is there, google-re2 anew"
        ) from error
    return re2


@cache
def _options(dot_matches_newlines: bool) -> Any:
    options = require().Options()
    options.max_mem, options.log_errors, options.dot_nl = MOST_MEMORY, False, dot_matches_newlines
    return options


def compiled(pattern: str, *, dot_matches_newlines: bool = False) -> Any:
    """Returns a pattern of RE2. Raises UnicodeError, and RE2's own `error`, for one that is malformed."""
    return require().compile(pattern, _options(dot_matches_newlines))
