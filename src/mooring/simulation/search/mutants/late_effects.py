"""Mutants of what goes on when those who asked for it have an error, or are gone."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mooring.controllers.attacher import controller as attacher
from mooring.node.csi.drivers import NodeDrivers
from mooring.node.volumes.volume import WantedVolume
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch
from mooring.volumes.errors import VolumeError

LATER_S = 10.0


def _not_mounted_is_none(original: Any) -> Any:
    def found(cls: Any, record: Any, mount_points: set[str]) -> Any:
        if record.device is not None and record.device.mount_path not in mount_points:
            record = msgspec.structs.replace(record, device=None)
        return original.__func__(cls, record, mount_points)

    return classmethod(found)


def _error_means_refused(original: Any) -> Any:
    return VolumeError


def _taken_out_late(original: Any) -> Any:
    async def unregister(self: Any, name: str) -> None:
        async def later() -> None:
            await asyncio.sleep(LATER_S)
            await original(self, name)

        self._drivers.remove(name)
        self._later = asyncio.ensure_future(later())

    return unregister


MUTANTS: dict[str, Mutant] = {
    "F1": Mutant(
        "a mount that is still under way when the agent starts is taken for none",
        "kubernetes/kubernetes#113563, #82492",
        ("S7", "S6"),
        scenarios.MOUNTING,
        (Patch(WantedVolume, "found", _not_mounted_is_none),),
    ),
    "F2": Mutant(
        "a storage's error counts as its refusal: what it was asked for is not outstanding",
        "kubernetes/kubernetes#69432, #71276",
        ("S13", "S20'"),
        scenarios.PUT_OFF,
        (Patch(attacher, "StorageRefused", _error_means_refused),),
    ),
    "F3": Mutant(
        "a driver that has left is taken out of the CSINode only when it has come back",
        "our own, put in to see whether it is found",
        ("L1", "L3", "L4"),
        scenarios.DRIVERS_LEAVE,
        (Patch(NodeDrivers, "unregister", _taken_out_late),),
        omits="nothing is attached to that node any more: its pods wait for ever",
    ),
}
