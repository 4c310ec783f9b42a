"""A node's key at a disk that the lock has granted to it: SCSI-3 persistent reservations, where a
PersistentVolume asks for them by the annotation PERSISTENT_RESERVATION. Off without it.

The key is made of the node and of the grant's token, so the next grant has another one. Guarantee when `take`
has returned: read afterwards, this node's key alone was registered at the disk, under a reservation that
keeps what is not registered from writing.

That alone never bars a node which registers again, and a disk may forget it all when it loses power: the
target's list has to be shut for that node first (a fence; docs/plugins.md says what is not promised).
"""

from __future__ import annotations

from functools import partial

import structlog

from mooring.fence.storage.reservations import Unreadable, own_key
from mooring.fence.storage.reserved import Failed
from mooring.fence.storage.sg_persist import Disk
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.plugins.programs import Run
from mooring.volumes.spec import VolumeSpec

PERSISTENT_RESERVATION = "mooring.dev/persistent-reservation"
ORDER_S = 30.0

log = structlog.get_logger("node-agent")


def key_of(spec: VolumeSpec, node_name: str) -> int:
    """The key of this node and the grant under which it has the volume; 0 if the volume asks for none. Raises
    InvalidSpec."""
    pv = spec.persistent_volume
    asked = pv.metadata.annotations.get(PERSISTENT_RESERVATION, "false") if pv is not None else "false"
    where = f"annotation {PERSISTENT_RESERVATION} of PersistentVolume {spec.name}"
    if asked not in ("true", "false"):
        raise InvalidSpec(f"{where} is {asked[:100]!r}: write true or false")
    if pv is None or asked == "false":
        return 0
    if not spec.epoch:
        raise InvalidSpec(
            f"{where} is for volumes that the lock grants to one node at a time, and this is none of them: use "
            "ReadWriteOnce or ReadWriteOncePod, and leave the lock switched on"
        )
    return own_key(node_name, f"{pv.uid} {spec.epoch}")


async def take(device: str, key: int, what: str, run: Run) -> None:
    """Registers this node's key at the disk and takes all other nodes' away. Idempotent. Raises VolumeError:
    then another node may still write."""
    disk = Disk(device, partial(run, deadline_s=ORDER_S))
    try:
        others = (await disk.read())[0] - {key}
        aborted = await disk.seize(key, others)
        found, held = await disk.read()
    except (Failed, Unreadable) as error:
        raise VolumeError(f"{what} could not be reserved for this node: {error}") from error
    if found != {key} or held.type <= 0:
        keys = ", ".join(map(hex, sorted(found)))
        raise VolumeError(
            f"{what} is not reserved for this node alone: {keys or 'no key'} is registered: another node has "
            "registered since"
        )
    if others:
        log.warning("keys of others preempted", disk=what, keys=sorted(map(hex, others)), aborted=aborted)


async def give_up(device: str, key: int, what: str, run: Run) -> None:
    """Takes this node's key back. What cannot be done is the next node's to do, which preempts it."""
    disk = Disk(device, partial(run, deadline_s=ORDER_S))
    try:
        if key in (await disk.read())[0]:
            await disk.unregister(key)
    except (Failed, Unreadable) as error:
        log.warning("the node's key stays registered", disk=what, problem=str(error))
