"""What `mooring up` was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path

from mooring.cluster.cloud import CloudOptions
from mooring.cluster.csi import CSIDrivers
from mooring.cluster.machines import kinds

NODE = "node-"
"""Machines are called by this, and a number from 1."""
ALL_CONTROLLERS = (
    "attachdetach,attacher,binding,provisioning,expansion,modification,scheduling,statefulset,daemonset,"
    "deployment,replicaset,replicationcontroller,job,disruption,quota,ephemeral,snapshots,snapshotter,"
    "nodelifecycle,podgc,serviceaccounts,cleanup,fencing"
)


@dataclass(frozen=True)
class Options:
    """The options of `mooring up`. Times in seconds."""

    nodes: int = 3
    machines: tuple[str, ...] = ()
    """The kind of each node's machine; namespaces for those that are not named."""
    port: int | None = None
    node_monitor_grace_period: float = 40.0
    force_detach_after: float = 360.0
    node_deletion_confirms_death: str = "pods"
    join: IPv4Interface | None = None
    """Where other machines reach this host, and in which network they are."""
    kubeconfig_out: Path | None = None
    images: Path | None = None
    volume_plugin_dir: Path | None = None
    """Where FlexVolume drivers are; None: where upstream has them."""
    plugin_settings: tuple[str, ...] = ()
    """PLUGIN:KEY=VALUE, for all agents and controllers."""
    rootless: bool = False
    controllers: str = ALL_CONTROLLERS
    csi: CSIDrivers = CSIDrivers()  # noqa: RUF009 - immutable
    cloud: CloudOptions | None = None
    bmc: bool = False
    fencing: bool = False
    self_fence: bool = False
    """Whether a machine's watchdog resets it when its node's Lease is not renewed."""
    page: bool = False
    """Whether the live page is served, too."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each node's machine, by the node's name."""
        names = [f"{NODE}{number}" for number in range(1, self.nodes + 1)]
        return dict.fromkeys(names, kinds.NAMESPACE) | dict(zip(names, self.machines, strict=False))

    @property
    def mode(self) -> str:
        """Of the disk array: whether its disks are block devices."""
        return "directory" if self.rootless else "loop"
