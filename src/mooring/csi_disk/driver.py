"""Assembles `disk.mooring.dev` for one process: controller, node, or both."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from mooring.csi.driver.services import Driver, Expansion, PluginService
from mooring.csi.errors import Code
from mooring.csi_disk.controller import DiskController
from mooring.csi_disk.node import DiskNode
from mooring.csi_disk.values import DRIVER_NAME
from mooring.mounts.errors import CommandFailed, MountsError, ProbeFailed
from mooring.mounts.interface import Mounts
from mooring.volumes.errors import (
    DeletedVolumeInUse,
    DeviceStillInUse,
    InvalidSpec,
    SnapshotNotFound,
    VolumeInUse,
    VolumeNotFound,
)
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_faults import DiskTrouble
from mooring.volumes.plugins.disk_snapshots import DiskSnapshots

CODES: dict[type[Exception], Code] = {
    InvalidSpec: Code.INVALID_ARGUMENT,
    VolumeNotFound: Code.NOT_FOUND,
    SnapshotNotFound: Code.NOT_FOUND,
    VolumeInUse: Code.FAILED_PRECONDITION,
    DeletedVolumeInUse: Code.FAILED_PRECONDITION,
    DeviceStillInUse: Code.FAILED_PRECONDITION,
    MountsError: Code.FAILED_PRECONDITION,
    DiskTrouble: Code.UNAVAILABLE,
    CommandFailed: Code.INTERNAL,
    ProbeFailed: Code.INTERNAL,
}
"""The codes for exceptions of the array and the mounts. After CommandFailed and ProbeFailed the outcome is
unknown; after the others nothing has happened."""


def disk_driver(
    root: Path,
    array: DiskArray,
    mounts: Mounts,
    *,
    version: str,
    node_id: str,
    machine: str,
    now: Callable[[], datetime],
    controller: bool = True,
    node: bool = True,
    max_volumes: int = 0,
) -> Driver:
    """The driver of the array in the directory `root`, whose disks `machine` can reach; `now` stamps
    snapshots."""
    root.mkdir(parents=True, exist_ok=True)
    snapshots = DiskSnapshots(root, array, now)
    return Driver(
        name=DRIVER_NAME,
        version=version,
        controller=DiskController(root, array, snapshots, machine) if controller else None,
        node=DiskNode(root, array, mounts, node_id, machine, max_volumes) if node else None,
        plugin_services=(PluginService.CONTROLLER_SERVICE, PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS),
        expansion=(Expansion.ONLINE,),
        codes=CODES,
    )
