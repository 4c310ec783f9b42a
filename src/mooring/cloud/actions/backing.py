"""Operations on the storage behind volumes and snapshots, and their effect on the records when they fail.

A device in use (`VolumeBusy`) is one of EC2's states. Any other failure is this machine's: it is logged, and
the record shows it ("error"). Operations on one volume run one at a time. All are idempotent, so that the
next start can repeat them after a crash.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import structlog

from mooring.cloud.errors import VolumeBusy
from mooring.cloud.region import Region

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def create(region: Region, id: str) -> bool:
    """Makes the volume's storage. Returns False if it has none: the volume is gone, or is now in error."""
    async with region.device(id):
        volume = region.store.volumes.get(id)
        if volume is None or volume.stored:
            return volume is not None
        try:
            await region.devices.create(id, volume.size, volume.source or volume.snapshot)
        except Exception as error:
            log.error("volume not created", volume=id, error=str(error), exc_info=error)
            _fail(region, id)
            return False
        if (volume := region.store.volumes.get(id)) is not None:
            region.store.put(msgspec.structs.replace(volume, stored=True))
        return volume is not None


async def copy(region: Region, source: str, id: str) -> bool:
    """Makes the volume's storage with the present data of `source`, which cannot be deleted meanwhile.
    Returns False as `create` does."""
    if not await create(region, source):
        return False
    async with region.device(source):
        return await create(region, id)


async def delete(region: Region, id: str) -> bool:
    """Deletes the volume's storage. Returns False if that failed: the volume is now in error."""
    async with region.device(id):
        volume = region.store.volumes.get(id)
        if volume is None or not volume.stored:
            return True
        try:
            await region.devices.delete(id)
        except Exception as error:
            log.error("volume not deleted", volume=id, error=str(error), exc_info=error)
            _fail(region, id)
            return False
        return True


async def resize(region: Region, id: str, size: int) -> str:
    """Grows the volume's storage. Returns why it failed; empty on success."""
    async with region.device(id):
        volume = region.store.volumes.get(id)
        if volume is None or not volume.stored:
            return ""
        try:
            await region.devices.resize(id, size)
        except Exception as error:
            log.error("volume not resized", volume=id, size=size, error=str(error), exc_info=error)
            return f"The volume's device could not be resized: {error}"
        return ""


async def attach(region: Region, id: str, instance: str, device: str) -> bool:
    """Makes the volume a device of the instance. Returns False if that failed: the attachment is
    unchanged."""
    if not await create(region, id):
        return False
    async with region.device(id):
        if not _is(region, id, instance, "attaching"):
            return False
        try:
            await region.devices.attach(id, instance, device)
        except Exception as error:
            log.error("volume not attached", volume=id, instance=instance, error=str(error), exc_info=error)
            return False
        return True


async def attach_again(region: Region, id: str, instance: str, device: str) -> None:
    """Restores the instance's device after a restart of this machine. A failure is logged."""
    async with region.device(id):
        volume = region.store.volumes.get(id)
        if volume is None or not volume.stored:
            return
        try:
            await region.devices.attach(id, instance, device)
        except Exception as error:
            log.error(
                "volume not attached again", volume=id, instance=instance, error=str(error), exc_info=error
            )


async def detach(region: Region, id: str, instance: str, force: bool) -> Literal["gone", "busy", "failed"]:
    """Takes the device away from the instance. Returns "gone", "busy" (still in use there) or "failed"."""
    async with region.device(id):
        volume = region.store.volumes.get(id)
        if volume is None or not volume.stored:
            return "gone"
        try:
            await region.devices.detach(id, instance, force)
        except VolumeBusy as busy:
            log.info("volume busy", volume=id, instance=instance, holders=busy.holders)
            return "busy"
        except Exception as error:
            log.error("volume not detached", volume=id, instance=instance, error=str(error), exc_info=error)
            return "failed"
        return "gone"


async def keep_snapshot(region: Region, id: str, snapshot: str) -> str:
    """Copies the volume's present data into the snapshot. Returns why it failed; empty on success."""
    if not await create(region, id):
        return "The volume has no storage."
    async with region.device(id):
        try:
            await region.devices.snapshot(id, snapshot)
        except Exception as error:
            log.error("snapshot not made", volume=id, snapshot=snapshot, error=str(error), exc_info=error)
            return f"The volume's data could not be kept: {error}"
        return ""


async def delete_snapshot(region: Region, snapshot: str) -> bool:
    """Deletes the snapshot's data. Returns whether it succeeded."""
    try:
        await region.devices.delete_snapshot(snapshot)
    except Exception as error:
        log.error("snapshot not deleted", snapshot=snapshot, error=str(error), exc_info=error)
        return False
    return True


def _is(region: Region, id: str, instance: str, state: str) -> bool:
    volume = region.store.volumes.get(id)
    attachment = volume.attachment(instance) if volume else None
    return attachment is not None and attachment.state == state


def _fail(region: Region, id: str) -> None:
    if (volume := region.store.volumes.get(id)) is not None and not volume.attachments:
        region.store.put(msgspec.structs.replace(volume, state="error", due=0.0))
