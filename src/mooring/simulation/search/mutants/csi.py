"""Mutants of the CSI roles and the CSI path: what a call that failed means."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from mooring.csi.errors import CsiError
from mooring.kube.objects import CSINode, Node
from mooring.node.csi.csinode import CSINodeWriter
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.operations import Operations
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch
from mooring.volumes.errors import StorageRefused, VolumeError
from mooring.volumes.plugins.csi import drivers
from mooring.volumes.plugins.csi.attaching import CSIAttacher


def _failed_means_refused(original: Any) -> Any:
    def volume_error(driver: str, error: CsiError) -> VolumeError:
        return StorageRefused(str(original(driver, error)))

    return volume_error


def _failed_means_still_mounted(original: Any) -> Any:
    async def unmount_device(self: Any, volume: Any, node_name: str) -> None:
        try:
            await original(self, volume, node_name)
        except Exception:
            volume.device = Presence.PRESENT
            raise

    return unmount_device


def _asks_the_csi_node(original: Any) -> Any:
    async def detach(self: Any, volume_name: str, node_name: str) -> None:
        await self.node_id(node_name)
        await original(self, volume_name, node_name)

    return detach


def _leave_it_to_the_old_node(original: Any) -> Any:
    async def take_over(self: Any, found: CSINode, node: Node) -> CSINode:
        return found

    return take_over


MUTANTS: dict[str, Mutant] = {
    "B59": Mutant(
        "a detach needs the CSINode of the node, whatever was noted when the volume was attached",
        "kubernetes-csi/external-attacher#299, #83",
        ("L1", "L3"),
        scenarios.CSI_LOST,
        (Patch(CSIAttacher, "detach", _asks_the_csi_node),),
        omits="the disk stays attached where its record says: the detach is never asked for",
    ),
    "X1": Mutant(
        "a call of a CSI driver that was not answered counts as one that was refused",
        "kubernetes-csi/external-provisioner#486, kubernetes/kubernetes#82492",
        ("S9", "S13"),
        scenarios.CSI_UNANSWERED,
        (Patch(drivers, "volume_error", _failed_means_refused),),
    ),
    "X5": Mutant(
        "the CSINode of a Node that was deleted is left as it is by the new one: it is collected as the old one's",
        "kubernetes/kubernetes#120063; in our own code until the simulation found it",
        ("L1", "L3"),
        scenarios.CSI_NODES,
        (Patch(CSINodeWriter, "_take_over", _leave_it_to_the_old_node),),
        omits="nothing is attached to that node any more: its pods wait for ever",
    ),
    "X2": Mutant(
        "a NodeUnstageVolume that was not answered in time counts as one that did nothing",
        "Mooring's own: seed 1005 of examples/simulation/csi.yaml",
        ("S4'",),
        scenarios.CSI_SLOW,
        (Patch(Operations, "unmount_device", _failed_means_still_mounted),),
    ),
}
