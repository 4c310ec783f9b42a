"""The seam between the store and whatever keeps its history: append a batch, recover.

Guarantee of every `Log`: when `append` has returned (or its awaitable is done), the batch survives a crash as
a whole; a batch that was not acknowledged survives as a whole or not at all. A log knows nothing of
Kubernetes: records are versions and bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

import msgspec


class Record(msgspec.Struct, frozen=True):
    """One write: the object's bytes at `version`, or its last state if `deleted`."""

    version: int
    resource: str
    namespace: str
    name: str
    deleted: bool
    body: bytes


class Batch(msgspec.Struct, frozen=True):
    """Writes that become durable together, and the housekeeping that rides along.

    `forgotten` are versions of records that no reader can ask for any more; after this batch, history is
    complete only for versions greater than `floor`.
    """

    records: Sequence[Record]
    forgotten: Sequence[int]
    floor: int


class Recovery(msgspec.Struct, frozen=True):
    """What a log holds: its records in order of version, and the floor of its last batch."""

    records: Iterable[Record]
    floor: int


class Log(Protocol):
    """Where the store's history is kept."""

    def append(self, batch: Batch) -> Awaitable[None] | None:
        """Makes a batch durable. None means that it already is; otherwise it is when the awaitable is done.

        The store never has two appends under way at once. An exception means that the outcome is unknown, and
        that nothing else is appended before `resume`.
        """
        ...

    async def resume(self, after: int) -> Sequence[Record]:
        """After an append that failed: makes all that the log holds durable and the log usable again.

        The records of versions greater than `after`, in their order: those of the failed batch if it was kept
        after all, else none. Raises what still stands in the way; then it may be tried again.
        """
        ...

    def recover(self) -> Recovery:
        """Everything appended and not forgotten. Called once, before the first append."""
        ...

    def close(self) -> None:
        """Releases the log's resources. What was appended stays."""
        ...


class MemoryLog:
    """A log for tests and simulations: durable as long as this object lives, and at once (no thread, no
    file)."""

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}
        self._floor = 0

    def append(self, batch: Batch) -> None:
        self._records.update((record.version, record) for record in batch.records)
        for version in batch.forgotten:
            self._records.pop(version, None)
        self._floor = batch.floor

    async def resume(self, after: int) -> Sequence[Record]:
        return [record for record in self._records.values() if record.version > after]

    def recover(self) -> Recovery:
        return Recovery(list(self._records.values()), self._floor)

    def close(self) -> None:
        pass
