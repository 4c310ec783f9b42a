"""What is left of a volume whose plugin this node does not have (any more): its places on disk.

An empty directory that is no mount point is nothing, and is removed. Anything else stays as it is, because it
may be data: a person is told once what it is and what to do, and again when it is something else. It must not
recurse and must not unmount: only a plugin knows how.
"""

from __future__ import annotations

import os

from mooring.mounts.blocking import blocking
from mooring.mounts.interface import Mounts
from mooring.volumes.errors import NoPluginMatched, VolumeError

LOOK_AGAIN_S = 120.0
"""Its plugin may be installed meanwhile, or a person may have removed it."""


class OrphanedVolume(VolumeError):
    """Something is there that only a plugin which is missing, or a person, may remove."""


async def remove_orphan(path: str, missing: NoPluginMatched, mounts: Mounts) -> None:
    """Removes the directory if nothing is there; done if it is gone. Raises OrphanedVolume."""
    mount = next((each for each in await mounts.mount_table() if each.mount_point == path), None)
    if mount is not None:
        found = f"{mount.fs_type} of {mount.source} is mounted there"
        step = f"`umount {path}`"
    elif found := await blocking(_remove, path):
        step = f"move away what you need of it, then `rmdir {path}`"
    else:
        return
    raise OrphanedVolume(
        f"{missing}; {path}, which no pod here uses any more, is left as it is: {found}. Install the plugin, and it is "
        f"cleaned up; or, if the plugin is not to come back: {step}. The agent looks again every {LOOK_AGAIN_S:.0f} s"
    )


def _remove(path: str) -> str:
    """Why it is not removed; "" when it is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        return str(error.strerror).lower()
    return ""
