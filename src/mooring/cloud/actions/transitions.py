"""Transitions, which happen at their due time without a request: a creation ends, an instance releases a
volume, ...

Each transition looks at the record as it is then, and does nothing if the record no longer waits for this
time. It acts on devices first and changes the record afterwards, so the next start repeats a transition that
a crash has interrupted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog

from mooring.cloud.actions import backing
from mooring.cloud.interface import PowerUnknown
from mooring.cloud.records.deadlines import Key
from mooring.cloud.records.resources import Attachment, Instance, Modification, Snapshot, Volume
from mooring.cloud.region import Region

replace = msgspec.structs.replace
log = structlog.get_logger(component="cloud")

POWER_AGAIN_S = 1.0
"""When a machine that did not do as ordered is ordered again."""


async def perform(region: Region, at: float, key: Key) -> None:
    """Performs the transition that `key` waited for until `at`, and makes it durable."""
    if not region.store.waits(at, key):
        return
    if key.part:
        await _attachment(region, key.id, key.part)
    else:
        await _BY_KIND[key.kind](region, key.id)
    region.store.commit()


# --- volumes


async def _volume(region: Region, id: str) -> None:
    volume = region.store.volumes.records[id]
    if volume.state == "deleting" or volume.doomed:
        if await backing.delete(region, id):
            forget_volume(region, id)
    elif volume.state == "creating" and await backing.create(region, id):
        volume = region.store.volumes.records[id]
        region.store.put(replace(volume, state="available", due=0.0))


def forget_volume(region: Region, id: str) -> None:
    """Removes the volume and its modification from the records."""
    if volume := region.store.volumes.get(id):
        region.store.remove(volume)
    if modification := region.store.modifications.get(id):
        region.store.remove(modification)


# --- attachments


async def _attachment(region: Region, id: str, instance: str) -> None:
    found = _attachment_of(region, id, instance)
    if found is None:
        return
    if found.state == "attaching":
        await _attach(region, id, found)
    else:
        await _detach(region, id, found)


async def _attach(region: Region, id: str, attachment: Attachment) -> None:
    done = await backing.attach(region, id, attachment.instance, attachment.device)
    found = _attachment_of(region, id, attachment.instance)
    if found is not None and found.state == "attaching":
        state = "attached" if done else "attaching"
        region.store.put(
            region.store.volumes.records[id].with_attachment(replace(found, state=state, due=0.0))
        )


async def _detach(region: Region, id: str, attachment: Attachment) -> None:
    if attachment.stuck and not attachment.force:
        outcome = "busy"
    else:
        outcome = await backing.detach(region, id, attachment.instance, attachment.force)
    found = _attachment_of(region, id, attachment.instance)
    if found is None:
        return
    volume = region.store.volumes.records[id]
    if outcome == "gone":
        region.store.put(_freed(region, volume, found))
    else:
        state = "busy" if outcome == "busy" else "detaching"
        region.store.put(volume.with_attachment(_again(region, found, state)))


def _again(region: Region, attachment: Attachment, state: str) -> Attachment:
    """The attachment with the time of the next try."""
    settings = region.settings
    if attachment.force:
        return replace(attachment, state=state, due=region.clock() + settings.busy_retry_s)
    if attachment.stuck:
        until = region.clock() + settings.stuck_s if settings.stuck_s else 0.0
        return replace(attachment, state=state, due=until, stuck=False)
    return replace(attachment, state=state, due=region.clock() + settings.busy_retry_s)


def _freed(region: Region, volume: Volume, attachment: Attachment) -> Volume:
    freed = volume.without_attachment(attachment.instance)
    instance = region.store.instances.get(attachment.instance)
    ended = instance is None or instance.state in ("shutting-down", "terminated")
    if ended and attachment.delete_on_termination and not freed.attachments:
        return replace(freed, state="deleting", due=region.delay(region.settings.deleting_s))
    return freed


def _attachment_of(region: Region, id: str, instance: str) -> Attachment | None:
    volume = region.store.volumes.get(id)
    return volume.attachment(instance) if volume else None


# --- instances


async def _instance(region: Region, id: str) -> None:
    instance = region.store.instances.records[id]
    before = instance.state
    after = {"pending": "running", "stopping": "stopped", "shutting-down": "terminated"}.get(instance.state)
    if after is None:
        region.store.remove(instance)
        return
    try:
        await (region.power.on(id) if after == "running" else region.power.off(id))
    except PowerUnknown as error:
        log.warning("an instance's machine did not do as ordered: tried again", instance=id, error=str(error))
        after = before
    instance = region.store.instances.records[id]
    if instance.state != before:
        return  # another order came meanwhile, with a time of its own
    if after == before:
        region.store.put(replace(instance, due=region.clock() + POWER_AGAIN_S))
    elif after == "terminated":
        _terminate(region, instance)
    else:
        region.store.put(replace(instance, state=after, due=0.0))


def _terminate(region: Region, instance: Instance) -> None:
    shown_until = region.clock() + region.settings.terminated_shown_s
    for volume in list(region.store.attached(instance.id)):
        if attachment := volume.attachment(instance.id):
            gone = replace(attachment, state="detaching", force=True, stuck=False, due=region.clock())
            region.store.put(volume.with_attachment(gone))
    region.store.put(replace(instance, state="terminated", due=shown_until))


# --- snapshots and modifications


async def _snapshot(region: Region, id: str) -> None:
    snapshot: Snapshot = region.store.snapshots.records[id]
    region.store.put(replace(snapshot, state="completed", due=0.0))


async def _discard(region: Region, id: str) -> None:
    discard = region.store.discards.records[id]
    volumes = region.store.volumes.records.values()
    needed = any(
        volume.snapshot == id and not volume.stored for volume in volumes if volume.state == "creating"
    )
    if needed or not await backing.delete_snapshot(region, id):
        region.store.put(replace(discard, due=region.clock() + 1.0))
    else:
        region.store.remove(discard)


async def _modification(region: Region, id: str) -> None:
    modification = region.store.modifications.records[id]
    if modification.state == "optimizing":
        region.store.put(replace(modification, state="completed", due=0.0, ended=region.clock()))
        return
    because = await backing.resize(region, id, modification.target.size)
    volume = region.store.volumes.get(id)
    if volume is None:
        return
    if because:
        failed = replace(modification, state="failed", due=0.0, ended=region.clock(), message=because)
        region.store.put(failed)
    else:
        region.store.put(_modified(volume, modification))
        due = region.delay(region.settings.optimizing_s)
        region.store.put(replace(modification, state="optimizing", optimizing=region.clock(), due=due))


def _modified(volume: Volume, modification: Modification) -> Volume:
    target = modification.target
    return replace(
        volume,
        size=target.size,
        type=target.type,
        iops=target.iops,
        throughput=target.throughput,
        multi_attach=target.multi_attach,
    )


_BY_KIND: Mapping[str, Callable[[Region, str], Awaitable[None]]] = {
    "volume": _volume,
    "instance": _instance,
    "snapshot": _snapshot,
    "modification": _modification,
    "discard": _discard,
}
