"""Mount flags of requests: options of a file system only, none that changes what mount(8) does. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OPTION = re.compile(r"[a-z][a-z0-9_]*(=[A-Za-z0-9._+:-]+)?")
_NOT_OF_FILE_SYSTEMS = frozenset(
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
    """How many of the flags cannot be used. Errors do not name them, because flags may hold secrets."""
    return sum(
        not (_OPTION.fullmatch(flag) and flag.partition("=")[0] not in _NOT_OF_FILE_SYSTEMS) for flag in flags
    )
