"""Tells the folder of FlexVolume drivers of changes, by inotify."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from mooring.node.inotify import (
    IN_ATTRIB,
    IN_CLOSE_WRITE,
    IN_CREATE,
    IN_DELETE,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    Watch,
    WatchFolders,
)
from mooring.volumes.plugins.flexvolume import folder

CHANGES = IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO
"""Of files and directories; IN_ATTRIB: one that was copied is made executable."""


def watch_drivers(watch: WatchFolders) -> folder.WatchFolders:
    """Reports what may change which drivers there are."""

    def watched(folders: Iterable[Path], changed: Callable[[], None]) -> Watch:
        return watch(folders, CHANGES, changed)

    return watched
