"""Volumes of CSI drivers.

    plugin        `kubernetes.io/csi` itself: names, and the node's half
      staging       once for a node: NodeStageVolume        publishing   for a pod: NodePublishVolume
      vol_data      what an unmount needs to know, on disk
    driver        one driver as the controllers use it
      attaching     ControllerPublishVolume                 provisioning, topology   CreateVolume
      snapshots     CreateSnapshot
    drivers       who can be called, and what a failed call means
    source        what a volume's spec says to CSI

Only here do `mooring.volumes` meet `mooring.csi`.
"""

from __future__ import annotations

from mooring.volumes.plugins.csi.plugin import CSIPlugin


def plugin() -> CSIPlugin:
    """The factory that the entry point names."""
    return CSIPlugin()
