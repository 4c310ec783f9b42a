"""The changes of the last hour, in order: a ring that is bounded by age, by number and by bytes. Pure.

Each change has what its row was before and after, so that a moment of the past is the present with the later
changes undone. A batch is what came together; its number is the state's version after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mooring.page.rows import Row

AGE_MS = 3600 * 1000
MOST_CHANGES = 60_000
MOST_BYTES = 24 * 1024**2


class Change(NamedTuple):
    """One row, before and after; None where it was not there."""

    table: str
    key: str
    before: Row | None
    after: Row | None


class Batch(NamedTuple):
    """Changes that came together. `at` is in milliseconds since 1970; `size` is what they take, in bytes of
    JSON."""

    version: int
    at: int
    changes: tuple[Change, ...]
    size: int


class History:
    """The ring."""

    def __init__(
        self, *, age_ms: int = AGE_MS, most_changes: int = MOST_CHANGES, most_bytes: int = MOST_BYTES
    ) -> None:
        self._age_ms, self._most_changes, self._most_bytes = age_ms, most_changes, most_bytes
        self._batches: deque[Batch] = deque()
        self._changes = self._bytes = 0

    @property
    def changes(self) -> int:
        """How many it holds."""
        return self._changes

    @property
    def size(self) -> int:
        """Bytes of JSON that it holds."""
        return self._bytes

    def add(self, version: int, at: int, changes: tuple[Change, ...]) -> Batch:
        """Appends a batch, and forgets the oldest ones that are too old or too much."""
        batch = Batch(version, at, changes, len(msgspec.json.encode(changes)))
        self._batches.append(batch)
        self._changes += len(changes)
        self._bytes += batch.size
        self.forget(at)
        return batch

    def forget(self, now: int) -> None:
        """Lets go what is too old at a time, or too much."""
        while self._batches and (
            self._batches[0].at < now - self._age_ms
            or self._changes > self._most_changes
            or self._bytes > self._most_bytes
        ):
            oldest = self._batches.popleft()
            self._changes -= len(oldest.changes)
            self._bytes -= oldest.size

    def since(self, version: int, present: int) -> list[Batch] | None:
        """The batches after a version; None if some of them are not known any more."""
        if version == present:
            return []
        found: list[Batch] = []
        for batch in reversed(self._batches):
            if batch.version <= version:
                break
            found.append(batch)
        found.reverse()
        known = bool(found) and found[0].version == version + 1 and version < present
        return found if known else None

    def about(self, table: str, key: str) -> Iterator[tuple[int, Change]]:
        """The changes of one row, each with its time, the oldest first."""
        for batch in self._batches:
            for change in batch.changes:
                if change.table == table and change.key == key:
                    yield batch.at, change

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)
