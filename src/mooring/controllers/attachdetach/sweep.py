"""The slow full sweep: every volume is looked at once in a period, a few at a time. A safety net, not a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from mooring.controllers.attachdetach.index import VolumeIndex

SWEEP = "*"
"""The key of the sweep."""
SWEEP_S = 300.0
"""The length of a whole sweep, in seconds."""
SLICE = 200
"""Objects that are looked at in one go: a few milliseconds."""


class Sweep:
    """Where the sweep is."""

    def __init__(self, index: VolumeIndex) -> None:
        self._index = index
        self._objects = 0
        self._rest: Iterator[list[str]] = iter(())

    def next(self, look: Callable[[str], None]) -> float:
        """Looks at the volumes of the next objects; seconds until the next slice is due."""
        slice_ = list(islice(self._rest, SLICE))
        if not slice_:
            self._rest = self._volumes()
            slice_ = list(islice(self._rest, SLICE))
        for volume in sorted({volume for volumes in slice_ for volume in volumes}):
            look(volume)
        return SWEEP_S / max(1, -(-self._objects // SLICE))

    def _volumes(self) -> Iterator[list[str]]:
        """By VolumeAttachments, then by pods: whoever wants or has a volume is one of those."""
        records, pods = self._index.records.items(), self._index.pods.items()
        self._objects = len(records) + len(pods)
        for record in records:
            name = self._index.adoption.volume(record)
            yield [name] if name else []
        for pod in pods:
            yield list(self._index.of_pod(pod)) if not pod.finished else []
