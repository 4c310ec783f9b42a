"""Snapshots of the array's disks: copies of media as they were at one moment.

    <root>/snapshots/<name>/snapshot.json    of which disk, of what size, and when it was taken
    <root>/snapshots/<name>/medium           the copy

A snapshot is there when its directory has its name: it is made beside, and renamed when it is whole. The
disk's file systems are frozen while it is copied, so that what is restored is a clean file system with all
that was written before. Blocking.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mooring.mounts.copies import copy_medium
from mooring.volumes.errors import InvalidSpec, SnapshotNotFound
from mooring.volumes.interfaces import ContentSource, Snapshot
from mooring.volumes.plugins.disk_array import Disk, DiskArray
from mooring.volumes.plugins.disk_files import sync_directory, write_durably


class SnapshotRecord(msgspec.Struct, frozen=True):
    """What is kept of a snapshot: the size of the disk in bytes, when it was taken, and of which disk."""

    size: int
    created: datetime
    disk: str = ""


class DiskSnapshots:
    """The snapshots of the array in the directory `root`."""

    def __init__(self, root: Path, array: DiskArray, now: Callable[[], datetime]) -> None:
        self._directory = root / "snapshots"
        self._array = array
        self._now = now

    def create(self, disk: str, name: str) -> Snapshot:
        """Idempotent. Raises VolumeNotFound."""
        where = self._where(name)
        if not where.exists():
            half = self._directory / f".half-{name}"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            with self._array.still(disk) as medium:
                record = SnapshotRecord(self._array.get(disk).size, self._now().astimezone(UTC), disk)
                copy_medium(medium, half / "medium")
            write_durably(half / "snapshot.json", msgspec.json.encode(record))
            os.rename(half, where)
            sync_directory(self._directory)
        return self.get(name)

    def get(self, name: str) -> Snapshot:
        """Raises SnapshotNotFound."""
        record = self.record(name)
        return Snapshot(name, record.size, record.created)

    def list(self) -> dict[str, SnapshotRecord]:
        """All snapshots by name."""
        found: dict[str, SnapshotRecord] = {}
        for name in sorted(os.listdir(self._directory)) if self._directory.is_dir() else []:
            if not name.startswith("."):
                with suppress(SnapshotNotFound):  # deleted meanwhile
                    found[name] = self.record(name)
        return found

    def record(self, name: str) -> SnapshotRecord:
        """Raises SnapshotNotFound."""
        try:
            content = (self._where(name) / "snapshot.json").read_bytes()
        except FileNotFoundError:
            raise SnapshotNotFound(f"the storage has no snapshot {name}: check the name") from None
        return msgspec.json.decode(content, type=SnapshotRecord)

    def delete(self, name: str) -> None:
        """Idempotent."""
        waste = self._directory / f".deleted-{name}"
        shutil.rmtree(waste, ignore_errors=True)
        if self._where(name).exists():
            os.rename(self._where(name), waste)
            shutil.rmtree(waste)

    def restore(
        self, source: ContentSource, disk: str, size: int, make: Callable[[Callable[[Path], None]], Disk]
    ) -> Disk:
        """A new disk with the content of a snapshot, or of another disk. `make` makes it with the function
        that fills it. Raises InvalidSpec if it is too small, SnapshotNotFound, VolumeNotFound."""
        least = self.get(source.snapshot).size if source.snapshot else self._array.get(source.volume).size
        if size < least:
            raise InvalidSpec(
                f"disk {disk} would have {size} bytes, but what it is to hold needs {least}: ask for more"
            )
        if source.snapshot:
            return make(lambda medium: copy_medium(self._where(source.snapshot) / "medium", medium))
        return make(lambda medium: self._clone(source.volume, medium))

    def _clone(self, disk: str, medium: Path) -> None:
        with self._array.still(disk) as original:
            copy_medium(original, medium)

    def _where(self, name: str) -> Path:
        if not name or name.startswith(".") or "/" in name:
            raise InvalidSpec(f"{name!r} is no name for a snapshot")
        return self._directory / name
