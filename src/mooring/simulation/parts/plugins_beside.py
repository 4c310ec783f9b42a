"""The plugins of a simulated cluster that are the same however it reaches its storage."""

from __future__ import annotations

from typing import Any

from mooring.simulation.parts.content_plugins import content_plugins
from mooring.simulation.parts.emptydir_plugin import ScratchPlugin
from mooring.simulation.parts.share_plugin import SharePlugin
from mooring.simulation.parts.storage import Array
from mooring.volumes.plugins.api_content import ContentPlugin


def plugins_beside(array: Array) -> list[ScratchPlugin | SharePlugin | ContentPlugin[Any]]:
    """For emptyDirs, shares of a file server, and what shows content of the API. `array`: whose faults of
    mounts are theirs, too."""
    return [ScratchPlugin(), SharePlugin(array), *content_plugins(array)]
