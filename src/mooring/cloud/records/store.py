"""All records of the cloud, with their indexes and the journal that outlives the process.

Guarantees: `commit` writes all changes since the last one in one transaction, each changed record once. After
a restart the store, its indexes and its due times are as they were at the last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from mooring.cloud.errors import DataDirectoryError
from mooring.cloud.interface import Journal
from mooring.cloud.records.deadlines import DueHeap, Key
from mooring.cloud.records.resources import (
    Discard,
    Instance,
    Modification,
    Record,
    Snapshot,
    Starts,
    Token,
    Volume,
    dues_of,
)
from mooring.cloud.records.table import Table

KINDS: Mapping[type[Record], str] = {
    Volume: "volume",
    Snapshot: "snapshot",
    Modification: "modification",
    Instance: "instance",
    Token: "token",
    Discard: "discard",
    Starts: "starts",
}


class Store:
    """Records by kind. Only `put` and `remove` change them."""

    def __init__(self, journal: Journal, clock: Callable[[], float], keep_s: Callable[[], float]) -> None:
        def keep_nothing() -> float:
            return 0.0

        self.volumes: Table[Volume] = Table(keep_s)
        self.snapshots: Table[Snapshot] = Table(keep_s)
        self.modifications: Table[Modification] = Table(keep_s)
        self.instances: Table[Instance] = Table(keep_s)
        self.tokens: Table[Token] = Table(keep_nothing)
        self.discards: Table[Discard] = Table(keep_nothing)
        self.starts: Table[Starts] = Table(keep_nothing)
        self.due = DueHeap()
        self._attached: dict[str, dict[str, float]] = {}
        """By instance: its volumes (0), and those that were detached lately (when)."""
        self._keep_s = keep_s
        self._journal = journal
        self._clock = clock
        self._dirty: dict[tuple[str, str], Record | None] = {}
        self._tables: dict[str, Table[Any]] = {
            "volume": self.volumes,
            "snapshot": self.snapshots,
            "modification": self.modifications,
            "instance": self.instances,
            "token": self.tokens,
            "discard": self.discards,
            "starts": self.starts,
        }
        self._load()

    def table(self, kind: str) -> Table[Any]:
        """The records of one kind ("volume")."""
        return self._tables[kind]

    def put(self, record: Record) -> None:
        """Stores the record in place of the one of its kind and id."""
        kind = KINDS[type(record)]
        old = self._tables[kind].put(record, self._clock())
        self._dirty[kind, record.id] = record
        self._index(kind, old, record)

    def remove(self, record: Record) -> None:
        """Removes the record."""
        kind = KINDS[type(record)]
        self._tables[kind].remove(record.id, self._clock())
        self._dirty[kind, record.id] = None

    def commit(self) -> None:
        """Makes all changes durable."""
        if not self._dirty:
            return
        self._journal.save(
            (kind, id, None if record is None else msgspec.json.encode(record))
            for (kind, id), record in self._dirty.items()
        )
        self._dirty.clear()

    def waits(self, at: float, key: Key) -> bool:
        """Whether the record still waits for this time."""
        due = dues_of(self._tables[key.kind].get(key.id)).get(key.part)
        return due is not None and due[0] == at

    def next_due(self) -> float | None:
        """The time of the next transition; None if none is due."""
        return self.due.next(self.waits)

    def attached(self, instance: str, time: float | None = None) -> Iterator[Volume]:
        """The volumes that are (or were at `time`) attached to the instance, in whatever state."""
        known = self._attached.get(instance, {})
        for id, left in tuple(known.items()):
            volume = self.volumes.as_of(id, time)
            if volume is not None and volume.attachment(instance):
                yield volume
            elif left and left <= self._clock() - self._keep_s():
                known.pop(id, None)

    def _index(self, kind: str, old: object, record: Record) -> None:
        before = dues_of(old)
        for part, due in dues_of(record).items():
            if before.get(part) != due:
                self.due.put(due[0], Key(kind, record.id, part))
        if isinstance(record, Volume):
            self._index_attachments(old if isinstance(old, Volume) else None, record)

    def _index_attachments(self, old: Volume | None, volume: Volume) -> None:
        for attachment in old.attachments if old else ():
            self._attached[attachment.instance][volume.id] = self._clock()
        for attachment in volume.attachments:
            self._attached.setdefault(attachment.instance, {})[volume.id] = 0.0

    def _load(self) -> None:
        types = {kind: type_ for type_, kind in KINDS.items()}
        found = [(kind, _read(types, kind, id, content)) for kind, id, content in self._journal.load()]
        found.sort(key=lambda one: one[1].used if isinstance(one[1], Token) else 0.0)
        for kind, record in found:
            self._tables[kind].put(record, self._clock())
            self._index(kind, None, record)


def _read(types: Mapping[str, type[Record]], kind: str, id: str, content: bytes) -> Record:
    try:
        return msgspec.json.decode(content, type=types[kind])
    except (KeyError, msgspec.DecodeError) as error:
        raise DataDirectoryError(f"the record {kind} {id} cannot be read: {error}") from error
