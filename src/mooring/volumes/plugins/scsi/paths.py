"""What is done with the paths of one disk: they are let go of, or grow. The order of steps only; what the
kernel has is looked up by `disks`, and orders that may not end are bounded by `orders`.

Guarantee: a disk that anything on the node has mounted or claimed is not dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import structlog

from mooring.volumes.errors import DeviceStillInUse, VolumeError
from mooring.volumes.plugins.orders import ordered
from mooring.volumes.plugins.programs import Run
from mooring.volumes.plugins.scsi.disks import ScsiDisks, Unit
from mooring.volumes.plugins.scsi.reservations import give_up

MAP_ORDER_S = 30.0
LOOK_S, FLUSH_S, DROP_S = 60.0, 300.0, 60.0
"""A transport that has lost its connection keeps I/O waiting for its own time, minutes, before it fails."""

log = structlog.get_logger("node-agent")


async def let_go(
    disks: ScsiDisks, units: Sequence[Unit], what: str, node_name: str, run: Run, key: int = 0
) -> None:
    """Writes the disk back, removes its multipath device, and has the kernel drop its paths. `what` names the
    disk; `key` is that under which this node may have registered at it, or 0. Raises DeviceStillInUse,
    OutcomeUnknown, VolumeError."""
    for path in dict.fromkeys(filter(None, map(disks.path, units))):
        if await ordered(f"look whether {path} is used", partial(disks.in_use, path), LOOK_S):
            raise DeviceStillInUse(what, node_name, [f"{path} is mounted or claimed"])
        await _flush(disks, what, path)
        if key:
            await give_up(path, key, what, run)
    for name in maps(units):
        ended = await run("multipath", "-f", f"/dev/{name}", deadline_s=MAP_ORDER_S)
        if ended.status != 0:
            raise VolumeError(f"the multipath device {name} of {what} is not removed: {ended.words()}")
    for unit in units:
        await ordered(f"drop {unit.directory.name}, {unit.name}", partial(disks.forget, unit), DROP_S)


async def _flush(disks: ScsiDisks, what: str, path: str) -> None:
    """What cannot be written is lost whatever is done: no pod has the device any more, and the kernel has
    given up on it. So the volume is let go of all the same."""
    try:
        await ordered(f"write {path} back", partial(disks.flush, path), FLUSH_S)
    except OSError as error:
        log.error("the last writes to a disk may be lost", disk=what, device=path, problem=str(error))


async def grow_maps(units: Sequence[Unit], what: str, run: Run) -> None:
    """Lets multipath devices have the size that their paths have now. Raises VolumeError."""
    for name in maps(units):
        ended = await run("multipathd", "resize", "map", name, deadline_s=MAP_ORDER_S)
        if ended.status != 0:
            raise VolumeError(f"the multipath device {name} of {what} does not grow: {ended.words()}")


def maps(units: Sequence[Unit]) -> list[str]:
    """The multipath devices that are made of these paths."""
    return list(dict.fromkeys(unit.map for unit in units if unit.map))
