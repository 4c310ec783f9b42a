"""One operation at a time on an object.

An operation names the object that it changes by a tuple: a volume, or a volume and a path. Two operations
conflict if one tuple begins with the other: a volume conflicts with each of its paths, two paths do not.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mooring.csi.driver import progress
from mooring.csi.driver.progress import UnderWay
from mooring.csi.errors import Code, CsiError

Key = tuple[str, ...]


class InFlight:
    """The operations of one process in flight. A look-up costs the same however many there are."""

    def __init__(self) -> None:
        self._held: dict[Key, UnderWay] = {}
        self._within: dict[Key, set[Key]] = {}
        """For each prefix of a held key: the held keys that begin with it."""

    def conflicting(self, key: Key) -> dict[Key, str]:
        """The operations that hold the object, a part of it, or what it is a part of: their keys and
        methods."""
        around = {prefix for prefix in _prefixes(key) if prefix in self._held}
        return {held: self._held[held].method for held in around | self._within.get(key, set())}

    @contextmanager
    def claim(self, key: Key, method: str) -> Generator[None]:
        """Holds the object while entered. Raises CsiError, ABORTED, if another operation holds it."""
        for other in self.conflicting(key):
            raise _under_way(key, self._held[other])
        operation = self._held[key] = UnderWay(method)
        for prefix in _prefixes(key):
            self._within.setdefault(prefix, set()).add(key)
        token = progress.current.set(operation)
        try:
            yield
        finally:
            progress.current.reset(token)
            del self._held[key]
            for prefix in _prefixes(key):
                self._within[prefix].discard(key)
                if not self._within[prefix]:
                    del self._within[prefix]


def _prefixes(key: Key) -> list[Key]:
    return [key[:length] for length in range(1, len(key) + 1)]


def _under_way(key: Key, operation: UnderWay) -> CsiError:
    what = f" ({operation.waits_for})" if operation.waits_for else ""
    return CsiError(
        Code.ABORTED, f"{operation.method} is under way for {key[1]}{what}: try again when it has ended"
    )
