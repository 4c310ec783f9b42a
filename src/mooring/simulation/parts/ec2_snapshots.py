"""What EC2 keeps of played disks: the words of a disk when a snapshot was taken of it, and what is made of
that.

Truth are the cloud's own records, as for volumes (`ec2`). What is copied is what was there when the record of
the snapshot, or of the new volume, was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.cloud.records.resources import Snapshot, Volume
from mooring.ebs.ec2.records import SNAPSHOT_NAME_TAG
from mooring.simulation.parts.storage import Array


class Ec2Snapshots:
    """Of one account. `disk`: gives the name of a volume's disk."""

    def __init__(self, array: Array, disk: Callable[[str], str]) -> None:
        self._array, self._disk = array, disk
        self._words: dict[str, tuple[str, ...]] = {}
        """Of each snapshot that there is or was: a volume may still be made of one that is deleted."""
        self._states: dict[str, str] = {}

    def record(self, snapshot: Snapshot) -> None:
        """A snapshot's record is new, or has changed."""
        before, self._states[snapshot.id] = self._states.get(snapshot.id, ""), snapshot.state
        ready = snapshot.state == "completed"
        if not before:
            disk = self._disk(snapshot.volume)
            words = self._words[snapshot.id] = (*self._array.content.get(disk, ()),)
            fields = {"name": snapshot.tags.get(SNAPSHOT_NAME_TAG, ""), "volume": disk, "words": len(words)}
            self._tell("taken", snapshot.id, **fields, ready=ready)
        elif ready and before != snapshot.state:
            self._tell("ready", snapshot.id)

    def removed(self, id: str) -> None:
        """It is deleted."""
        if self._states.pop(id, None) is not None:
            self._tell("deleted", id)

    def fill(self, disk: str, volume: Volume) -> dict[str, Any]:
        """A disk that is made begins as its source, if it has one. Returns what is told of that."""
        source = volume.snapshot or (volume.source and self._disk(volume.source))
        if not source:
            return {}
        words = self._words[source] if volume.snapshot else (*self._array.content.get(source, ()),)
        if not words:
            return {"source": source}
        self._array.content[disk] = [*words]
        return {"source": source, "words": len(words)}

    def _tell(self, what: str, id: str, **fields: Any) -> None:
        self._array.journal("ec2", f"truth.snapshot-{what}", snapshot=id, **fields)
