"""Mount flags of requests: options of a file system, and nothing that mount(8) takes for another thing to do.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OPTION = re.compile(r"[a-z][a-z0-9_]*(=[A-Za-z0-9._+:-]+)?")
_ANOTHER_THING = frozenset(
    {
        "bind",
        "rbind",
        "move",
        "remount",
        "loop",
        "offset",
        "sizelimit",
        "user",
        "users",
        "owner",
        "group",
        "helper",
    }
)


def flags_refusal(flags: Iterable[str]) -> str:
    """Why a volume cannot be mounted with the flags; empty if it can."""
    count = refused_options(flags)
    return (
        f"{count} of the mount flags cannot be used: give options like noatime or commit=5" if count else ""
    )


def refused_options(flags: Iterable[str]) -> int:
    """How many of the flags cannot be used. They are not named, for flags may hold secrets."""
    return sum(
        not (_OPTION.fullmatch(flag) and flag.partition("=")[0] not in _ANOTHER_THING) for flag in flags
    )
