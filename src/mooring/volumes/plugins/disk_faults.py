"""Faults that a disk was told to have: operations that fail, or that hang until they are released."""

from __future__ import annotations

import asyncio

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins.disk_array import DiskArray

POLL_S = 0.2
OPERATIONS = ("attach", "detach", "expand", "delete")


class DiskTrouble(VolumeError):
    """The operation failed because the disk was told to fail it. To the caller its outcome is
    unknown, as with a real fault."""


async def meet_trouble(array: DiskArray, disk: str, operation: str) -> None:
    """Returns when the operation may go on. Raises DiskTrouble, VolumeNotFound."""
    trouble = (await blocking(array.get, disk)).trouble
    while operation in trouble.stick:  # until another process has written the record
        await asyncio.sleep(POLL_S)
        trouble = (await blocking(array.get, disk)).trouble
    if operation in trouble.fail:
        raise DiskTrouble(
            f"{operation} of disk {disk} fails, as it was told to: `mooring disk {disk}` ends that"
        )
