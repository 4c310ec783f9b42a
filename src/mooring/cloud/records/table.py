"""A table of one kind of record: by id, by tag, and as of a little while ago.

In memory only. A table keeps earlier versions of a record for `keep_s` seconds, so that a describe can get a
stale answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from mooring.cloud.records.resources import tags_of


class Identified(Protocol):
    """A record with an id."""

    @property
    def id(self) -> str:
        """Unique among the records of its kind."""
        ...


R = TypeVar("R", bound=Identified)


class Table(Generic[R]):
    """Records of one kind, in the order of their creation."""

    def __init__(self, keep_s: Callable[[], float]) -> None:
        self.records: dict[str, R] = {}
        self._tagged: dict[tuple[str, str], dict[str, None]] = {}
        self._past: dict[str, list[tuple[float, R | None]]] = {}
        self._ends: deque[tuple[float, str]] = deque()
        self._keep_s = keep_s

    def get(self, id: str) -> R | None:
        """The present record; None if there is none."""
        return self.records.get(id)

    def put(self, record: R, now: float) -> R | None:
        """Stores the record; returns the one that it replaces."""
        old = self.records.get(record.id)
        self._remember(record.id, old, now)
        self._untag(old)
        self.records[record.id] = record
        for pair in tags_of(record).items():
            self._tagged.setdefault(pair, {})[record.id] = None
        return old

    def remove(self, id: str, now: float) -> R | None:
        """Removes the record, and returns it."""
        old = self.records.pop(id, None)
        if old is not None:
            self._remember(id, old, now)
            self._untag(old)
        return old

    def as_of(self, id: str, time: float | None) -> R | None:
        """The record as of `time`, as far back as versions are kept; for None the present one."""
        if time is not None:
            for until, record in self._past.get(id, ()):
                if time < until:
                    return record
        return self.records.get(id)

    def ids(self, time: float | None = None) -> Iterator[str]:
        """All present ids, and those that may have existed at `time`."""
        yield from self.records
        if time is not None:
            yield from (id for id in self._past if id not in self.records)

    def tagged(self, key: str, values: Iterable[str], time: float | None = None) -> Iterator[str]:
        """Ids of records that have one of these values as their tag, and those that may have had it at
        `time`."""
        found: dict[str, None] = {}
        for value in values:
            found |= self._tagged.get((key, value), {})
        if time is not None:
            found |= dict.fromkeys(self._past)
        return iter(found)

    def _remember(self, id: str, old: R | None, now: float) -> None:
        keep = self._keep_s()
        while self._ends and self._ends[0][0] <= now - keep:
            self._forget(self._ends.popleft()[1], now - keep)
        if keep > 0:
            self._past.setdefault(id, []).append((now, old))
            self._ends.append((now, id))

    def _forget(self, id: str, before: float) -> None:
        left = [(until, record) for until, record in self._past.get(id, ()) if until > before]
        if left:
            self._past[id] = left
        else:
            self._past.pop(id, None)

    def _untag(self, old: R | None) -> None:
        for pair in tags_of(old).items():
            self._tagged[pair].pop(old.id if old else "", None)
            if not self._tagged[pair]:
                del self._tagged[pair]
