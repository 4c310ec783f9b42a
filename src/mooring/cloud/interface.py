"""The cloud's seams: the storage behind volumes, the machines behind instances, the journal of its records.

The simulator and `--devices=off` use `NoDevices`; `mooring.cloud.devices` has real ones. Tests use
`NoJournal`; `mooring.cloud.records.journal` is the real one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Devices(Protocol):
    """The storage behind volumes and snapshots. All methods are idempotent. Sizes are in GiB."""

    async def create(self, volume_id: str, size: int, source: str = "") -> None:
        """Makes the volume's storage, with the data of `source` if given: the id of a snapshot or another
        volume."""
        ...

    async def delete(self, volume_id: str) -> None:
        """Destroys the volume's data."""
        ...

    async def resize(self, volume_id: str, size: int) -> None:
        """Grows the volume, also while it is attached."""
        ...

    async def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        """Makes the volume a block device of the instance."""
        ...

    async def detach(self, volume_id: str, instance_id: str, force: bool = False) -> None:
        """Takes the device away from the instance. Raises VolumeBusy while it is in use, unless `force`."""
        ...

    async def snapshot(self, volume_id: str, snapshot_id: str) -> None:
        """Copies the volume's present data."""
        ...

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Destroys the snapshot's data."""
        ...


class Power(Protocol):
    """The machines behind instances. Both methods are idempotent, and raise PowerUnknown if it is not certain
    that it was done."""

    async def on(self, instance_id: str) -> None:
        """Boots the instance's machine, if it has no power."""
        ...

    async def off(self, instance_id: str) -> None:
        """Cuts its power; when this returns, nothing of it runs any more."""
        ...


class PowerUnknown(Exception):
    """The machine may or may not have power."""


class NoMachines(Power):
    """Instances are records only."""

    async def on(self, instance_id: str) -> None:
        return

    async def off(self, instance_id: str) -> None:
        return


class NoDevices(Devices):
    """No storage: volumes are records only."""

    async def create(self, volume_id: str, size: int, source: str = "") -> None:
        return

    async def delete(self, volume_id: str) -> None:
        return

    async def resize(self, volume_id: str, size: int) -> None:
        return

    async def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        return

    async def detach(self, volume_id: str, instance_id: str, force: bool = False) -> None:
        return

    async def snapshot(self, volume_id: str, snapshot_id: str) -> None:
        return

    async def delete_snapshot(self, snapshot_id: str) -> None:
        return


class Journal(Protocol):
    """Durable storage of records. A record is a kind, an id and its encoded content."""

    def load(self) -> Iterable[tuple[str, str, bytes]]:
        """All records: kind, id, content."""
        ...

    def save(self, changes: Iterable[tuple[str, str, bytes | None]]) -> None:
        """Stores all of the changes or, if the process dies meanwhile, none; content None removes a record.
        Durable at return."""
        ...


class NoJournal(Journal):
    """Stores nothing."""

    def load(self) -> Iterable[tuple[str, str, bytes]]:
        return ()

    def save(self, changes: Iterable[tuple[str, str, bytes | None]]) -> None:
        return
