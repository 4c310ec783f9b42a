"""The slow full sweep, a safety net: once in a period every volume is decided about, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice

from mooring.controllers.attachdetach.index import VolumeIndex


class SweepKey(Enum):
    """The key of the sweep, in a queue of volumes."""

    SWEEP = "sweep"


SWEEP = SweepKey.SWEEP
SWEEP_S = 300.0
"""Seconds that a whole sweep takes."""
SLICE = 200
"""Objects that are looked at without a pause: a few milliseconds of work."""


class Sweep:
    """The position of the sweep."""

    def __init__(self, index: VolumeIndex) -> None:
        self._index = index
        self._objects = 0
        self._rest: Iterator[list[str]] = iter(())

    def next(self, look: Callable[[str], None]) -> float:
        """Calls `look` with the volumes of the next slice. Returns the seconds until the
        slice after it is due."""
        slice_ = list(islice(self._rest, SLICE))
        if not slice_:
            self._rest = self.volumes()
            slice_ = list(islice(self._rest, SLICE))
        for volume in sorted({volume for volumes in slice_ for volume in volumes}):
            look(volume)
        return SWEEP_S / max(1, -(-self._objects // SLICE))

    def volumes(self) -> Iterator[list[str]]:
        """Yields volumes by VolumeAttachments, then by pods: each volume that is wanted or
        attached is of one of them."""
        records, pods = self._index.records.items(), self._index.pods.items()
        self._objects = len(records) + len(pods)
        for record in records:
            name = self._index.adoption.volume(record)
            yield [name] if name else []
        for pod in pods:
            yield list(self._index.of_pod(pod)) if not pod.finished else []
