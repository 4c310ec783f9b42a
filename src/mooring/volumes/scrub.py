"""Empties a directory so that another claim can have it (`Recycle`). What is mounted below it is never entered.

It happens on the machine of the controller. Only where that is the volume's machine, too, may it happen at all: the
operator says so with the plugin's setting `recycle: this-machine`, as `mooring up` does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from mooring.mounts.blocking import blocking
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.table import mounts_below, read_mount_table
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.interfaces import RecycleEventRecorder

SETTING, HERE = "recycle", "this-machine"
_FEWEST_PARTS = 3


def may_recycle(settings: Mapping[str, str], pv_name: str) -> None:
    """Raises InvalidSpec unless the plugin's settings permit it."""
    if settings.get(SETTING) != HERE:
        raise InvalidSpec(
            f"volume {pv_name} is not recycled: this controller is not known to run on the volume's machine. Delete "
            f"the PersistentVolume and clean up there, or give the plugin the setting {SETTING}={HERE}"
        )


async def scrub(path: str, pv_name: str, record: RecycleEventRecorder) -> None:
    """Removes everything in the directory and keeps the directory. Idempotent. Raises InvalidSpec for a path that
    nobody means to empty (`/`, `/home`), DeviceBusy while something is mounted below, OSError."""
    if len(os.path.realpath(path).split("/")) < _FEWEST_PARTS or os.path.islink(path):
        raise InvalidSpec(f"volume {pv_name} is not recycled: {path} is a link or a top-level directory")
    if not os.path.isdir(path):
        raise InvalidSpec(f"volume {pv_name} is not recycled: there is no directory {path} on this machine")
    record("Normal", f"everything in {path} is being removed")
    await blocking(_empty, path)


def _empty(path: str) -> None:
    mounted = [mount.mount_point for mount in mounts_below(read_mount_table(), os.path.realpath(path))]
    if inside := [point for point in mounted if point != os.path.realpath(path)]:
        raise DeviceBusy(path, [f"mounted there: {point}" for point in inside])
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
