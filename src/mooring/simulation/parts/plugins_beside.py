"""The plugins of a simulated cluster that are the same however it reaches its storage."""

from __future__ import annotations

from mooring.simulation.parts.content_plugins import content_plugins
from mooring.simulation.parts.emptydir_plugin import ScratchPlugin
from mooring.simulation.parts.share_plugin import SharePlugin
from mooring.simulation.parts.storage import Array
from mooring.volumes.interfaces import VolumePlugin


def plugins_beside(array: Array) -> list[VolumePlugin]:
    """For emptyDirs, shares of a file server, and what shows content of the API. `array`: whose faults of
    mounts are theirs, too."""
    return [ScratchPlugin(), SharePlugin(array), *content_plugins(array)]
