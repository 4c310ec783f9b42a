"""The volume plugins of a process in a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.csi.driver.dispatch import Dispatcher
from mooring.simulation.parts.array_plugin import DISK, Array, plugin_of
from mooring.simulation.parts.csi_driver import DRIVER as CSI_DRIVER
from mooring.simulation.parts.csi_driver import csi_node_service, csi_plugins
from mooring.simulation.parts.driver_process import DriverProcess
from mooring.simulation.parts.ebs_driver import DRIVER as EBS_DRIVER
from mooring.simulation.parts.ebs_driver import EbsProcess, ebs_node_service, ebs_plugins
from mooring.simulation.parts.ec2 import Ec2
from mooring.simulation.parts.plugins_beside import plugins_beside
from mooring.volumes.host import VolumeHost
from mooring.volumes.plugin_manager import PluginManager

DRIVERS = {"plugin": DISK, "csi": CSI_DRIVER, "ebs": EBS_DRIVER}
"""How a cluster reaches its storage, and the provisioner that its StorageClass names."""
MakePlugins = Callable[[VolumeHost], PluginManager]
"""Makes the plugins of one process."""


def node_service(array: Array, node: str, ec2: Ec2 | None) -> Dispatcher:
    """What serves a node, in one life of its driver's process there."""
    return csi_node_service(array, node) if ec2 is None else ebs_node_service(ec2, node)


def array_plugins(
    array: Array,
    driver: str = "plugin",
    ebs: EbsProcess | None = None,
    services: Mapping[str, DriverProcess] | None = None,
) -> MakePlugins:
    """The plugins of a process that reaches this array by a plugin (`plugin`) or by a CSI driver (`csi`), or
    a cloud's volumes by the process of their driver (`ebs`). `services`: the drivers' node services, by
    node."""
    if ebs is not None:
        return lambda host: ebs_plugins(ebs, array, services or {}, host)
    if driver == "csi":
        return lambda host: csi_plugins(array, services or {}, host)
    return lambda host: PluginManager([plugin_of(array), *plugins_beside(array)], host)
