"""One operation at a time on an object.

An operation names what it changes by a tuple: a volume, or a volume and a path. Two are at odds if one tuple
begins with the other: a volume with all of its paths, but not one path with another.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mooring.csi.driver import progress
from mooring.csi.driver.progress import UnderWay
from mooring.csi.errors import Code, CsiError

Key = tuple[str, ...]


class InFlight:
    """The operations of one process that are under way. Each question costs the same, however many there
    are."""

    def __init__(self) -> None:
        self._held: dict[Key, UnderWay] = {}
        self._within: dict[Key, set[Key]] = {}
        """For each beginning of a key that is held: the keys."""

    def at_odds_with(self, key: Key) -> dict[Key, str]:
        """The operations that hold the object, a part of it, or what it is a part of: their keys and
        methods."""
        around = {beginning for beginning in _beginnings(key) if beginning in self._held}
        return {held: self._held[held].method for held in around | self._within.get(key, set())}

    @contextmanager
    def claim(self, key: Key, method: str) -> Generator[None]:
        """Holds the object while entered. Raises CsiError, ABORTED, if another operation holds it."""
        for other in self.at_odds_with(key):
            raise _under_way(key, self._held[other])
        operation = self._held[key] = UnderWay(method)
        for beginning in _beginnings(key):
            self._within.setdefault(beginning, set()).add(key)
        token = progress.current.set(operation)
        try:
            yield
        finally:
            progress.current.reset(token)
            del self._held[key]
            for beginning in _beginnings(key):
                self._within[beginning].discard(key)
                if not self._within[beginning]:
                    del self._within[beginning]


def _beginnings(key: Key) -> list[Key]:
    return [key[:length] for length in range(1, len(key) + 1)]


def _under_way(key: Key, operation: UnderWay) -> CsiError:
    what = f" ({operation.waits_for})" if operation.waits_for else ""
    return CsiError(
        Code.ABORTED, f"{operation.method} is under way for {key[1]}{what}: try again when it has ended"
    )
