"""Empties a directory so that another claim can have it (`Recycle`). Mounts below it are never entered.

It runs on the controller's machine, and only where that is the volume's machine, too: the operator says so
with the plugin's setting `recycle: this-machine`, as `mooring up` does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from mooring.mounts.blocking import blocking
from mooring.mounts.holders import who_mounts
from mooring.mounts.interface import Mount
from mooring.mounts.table import mounts_below, read_mount_table, same_content, shown_at
from mooring.volumes.errors import DeletedVolumeInUse, InvalidSpec
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
    """Removes everything in the directory and keeps the directory. Idempotent. Raises InvalidSpec for a path
    that can only be a mistake (`/`, `/home`), DeletedVolumeInUse while a part of it is mounted in any mount
    namespace (in a container, for example) or something is mounted below it, OSError."""
    if len(os.path.realpath(path).split("/")) < _FEWEST_PARTS or os.path.islink(path):
        raise InvalidSpec(f"volume {pv_name} is not recycled: {path} is a link or a top-level directory")
    if not os.path.isdir(path):
        raise InvalidSpec(f"volume {pv_name} is not recycled: there is no directory {path} on this machine")
    record("Normal", f"everything in {path} is being removed")
    await blocking(_empty, path, pv_name)


def _empty(path: str, pv_name: str) -> None:
    if users := _users(os.path.realpath(path)):
        raise DeletedVolumeInUse(pv_name, users=users)
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _users(path: str) -> list[str]:
    """Returns, in words, which mount namespaces of this machine have the directory or a part of it mounted,
    and what is mounted below it here."""
    table = read_mount_table()
    shown = shown_at(table, path)
    inside = [mount for mount in mounts_below(table, path) if mount.mount_point != path]
    # Where the directory is a mount point itself, a mount namespace that was copied from this one has that
    # mount, too.
    own = [_place(table, mount) for mount in table if mount.mount_point == path]
    elsewhere = who_mounts(lambda each: [m for m in same_content(each, shown) if _place(each, m) not in own])
    return [f"covered by a mount at {mount.mount_point}" for mount in inside] + elsewhere


def _place(table: tuple[Mount, ...], mount: Mount) -> tuple[object, ...]:
    """Where a mount is: one in a container is on the container's root file system, a copy of
    ours is on this one's."""
    parent = next((each for each in table if each.mount_id == mount.parent_id), None)
    below = (parent.device, parent.root, parent.mount_point) if parent is not None else ()
    return mount.mount_point, mount.device, mount.root, *below
