"""One operation at a time on an object. Pure.

An operation names what it changes by a tuple: a volume, or a volume and a path. Two are at odds if one tuple begins
with the other: a volume with all of its paths, but not one path with another.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mooring.csi.errors import Code, CsiError

Key = tuple[str, ...]


class InFlight:
    """The operations of one process that are under way."""

    def __init__(self) -> None:
        self._held: dict[Key, str] = {}

    @contextmanager
    def claim(self, key: Key, method: str) -> Generator[None]:
        """Holds the object while entered. Raises CsiError, ABORTED, if another operation holds it."""
        for held, other in self._held.items():
            shorter = min(len(held), len(key))
            if held[:shorter] == key[:shorter]:
                raise CsiError(Code.ABORTED, f"{other} is under way for {key[1]}: try again when it has ended")
        self._held[key] = method
        try:
            yield
        finally:
            del self._held[key]
