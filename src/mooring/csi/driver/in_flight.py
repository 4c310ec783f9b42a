"""One operation at a time on an object.

An operation names the object that it changes by a tuple: a volume, or a volume and a path. Two operations
conflict if one tuple begins with the other: a volume conflicts with each of its paths, two paths do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from mooring.csi.driver import progress
from mooring.csi.driver.progress import UnderWay
from mooring.csi.errors import Code, CsiError

Key = tuple[str, ...]


class InFlight:
    """The operations of one process in flight. Of those on an object of which one gives way to the other, the
    last one holds it. A look-up costs the same however many there are."""

    def __init__(self) -> None:
        self._held: dict[Key, UnderWay] = {}
        self._within: dict[Key, set[Key]] = {}
        """For each prefix of a held key: the held keys that begin with it."""

    @contextmanager
    def claim(self, key: Key, method: str, gives_way: Callable[[str], bool]) -> Generator[list[UnderWay]]:
        """The current task holds the object while entered; gives the operations that held it, a part of it,
        or what it is a part of: their methods give way, they are still to end. Raises CsiError, ABORTED, if
        one does not."""
        before = [self._held[other] for other in sorted(self._conflicting(key))]
        for other in before:
            if not gives_way(other.method):
                raise _under_way(key, other)
        operation = self._held[key] = UnderWay(method, asyncio.current_task())
        for prefix in _prefixes(key):
            self._within.setdefault(prefix, set()).add(key)
        token = progress.current.set(operation)
        try:
            yield before
        finally:
            progress.current.reset(token)
            if self._held.get(key) is operation:
                self._let_go(key)

    def _conflicting(self, key: Key) -> set[Key]:
        return {prefix for prefix in _prefixes(key) if prefix in self._held} | self._within.get(key, set())

    def _let_go(self, key: Key) -> None:
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
