"""Mutants of the CSI roles: what a call that failed means."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from mooring.csi.errors import CsiError
from mooring.simulation.mutants import grounds
from mooring.simulation.mutants.mutant import Mutant, Patch
from mooring.volumes.errors import StorageRefused, VolumeError
from mooring.volumes.plugins.csi import drivers


def _failed_means_refused(original: Any) -> Any:
    def volume_error(driver: str, error: CsiError) -> VolumeError:
        return StorageRefused(str(original(driver, error)))

    return volume_error


MUTANTS: dict[str, Mutant] = {
    "X1": Mutant(
        "a call of a CSI driver that was not answered counts as one that was refused",
        "kubernetes-csi/external-provisioner#486, kubernetes/kubernetes#82492",
        ("S9", "S13"),
        grounds.CSI_UNANSWERED,
        (Patch(drivers, "volume_error", _failed_means_refused),),
    ),
}
