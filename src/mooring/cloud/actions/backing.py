"""Work on what is behind volumes and snapshots, and what becomes of the records when it fails.

A device that is still used (`VolumeBusy`) is a state of EC2's. Any other failure is this machine's: it is
logged, and the record shows it ("error"). Work on one volume is done one at a time. All of it may be done
again after a crash.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import structlog

from mooring.cloud.errors import VolumeBusy
from mooring.cloud.region import Region

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def create(region: Region, id: str) -> bool:
    """The volume has storage. False if it has none: it is gone, or is now in error."""
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
    """The volume has storage with what `source` holds now, which is not deleted meanwhile. False as for
    `create`."""
    if not await create(region, source):
        return False
    async with region.device(source):
        return await create(region, id)


async def delete(region: Region, id: str) -> bool:
    """The volume has no storage. False if it still has: the volume is now in error."""
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
    """The volume has the size. Otherwise says why not."""
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
    """The instance has the device. False if it has not: the attachment stays as it is."""
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
    """The instance has the device that it had before this machine was started anew."""
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
    """The instance has the device no more ("gone"), still uses it ("busy"), or it could not be taken away."""
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
    """The snapshot holds what the volume holds now. Otherwise says why not."""
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
    """The snapshot's data is gone."""
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
