"""The volume plugins of a process in a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable

from mooring.simulation.array import Array, ArrayPlugin
from mooring.simulation.scratch import ScratchPlugin
from mooring.volumes.host import VolumeHost
from mooring.volumes.plugin_manager import PluginManager

MakePlugins = Callable[[VolumeHost], PluginManager]
"""Makes the plugins of one process."""


def array_plugins(array: Array) -> MakePlugins:
    """The plugins of a process in whose world this array is the only storage that is attached."""
    return lambda host: PluginManager([ArrayPlugin(array), ScratchPlugin()], host)
