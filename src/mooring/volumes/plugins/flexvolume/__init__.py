"""FlexVolume: volumes of drivers that are executables in a directory of the machine.

    plugin        finds drivers, and is each of them to the framework
      mounting    for a pod: mount, unmount        attaching   attach, detach, and once for a node
    folder        which drivers there are          options     what a driver is told
    driver        a call                           answer      what it says
      program     runs the executable

Rules: upstream's `pkg/volume/flexvolume`.
"""

from __future__ import annotations

from mooring.volumes.plugins.flexvolume.plugin import FlexVolumePlugin


def plugin() -> FlexVolumePlugin:
    """The factory that the entry point names."""
    return FlexVolumePlugin()
