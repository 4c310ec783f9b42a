"""JSON values as keys of sets and dicts, so that looking for one among many takes one step. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

_sorted = msgspec.json.Encoder(order="deterministic").encode


def identity(value: Any) -> Hashable:
    """Equal for values that are equal in JSON, and for no others: false is not 0 there, unlike in Python."""
    return _sorted(value) if isinstance(value, dict | list | bool) else value


def ranks(values: Iterable[Any]) -> dict[Hashable, int]:
    """By the identity of each value, where it stands first."""
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        first.setdefault(identity(value), index)
    return first
